package broker

import "fmt"

// Code is why a call failed, as the guest and the audit see it. The set is
// closed; PROTOCOL.md says when each is used.
type Code string

// The codes.
const (
	CodeBadName             Code = "bad_name"
	CodeNamespaceNotAllowed Code = "namespace_not_allowed"
	CodeNotGranted          Code = "not_granted"
	CodeDenied              Code = "denied"
	CodeUnknownTool         Code = "unknown_tool"
	CodeNoProvider          Code = "no_provider"
	CodeBadArguments        Code = "bad_arguments"
	CodeToolLimit           Code = "tool_limit"
	CodeToolTimeLimit       Code = "tool_time_limit"
	CodeRateLimited         Code = "rate_limited"
	CodeCircuitOpen         Code = "circuit_open"
	CodeTooLarge            Code = "too_large"
	CodeTimeout             Code = "timeout"
	CodeProviderError       Code = "provider_error"
	CodeBadAnswer           Code = "bad_answer"
	CodeCancelled           Code = "cancelled"
	CodeFinished            Code = "finished"
	CodeAuditFailed         Code = "audit_failed"
	CodeApprovalDenied      Code = "approval_denied"
	CodeApprovalExpired     Code = "approval_expired"
	CodeNotRecorded         Code = "not_recorded"
	CodeDiverged            Code = "diverged"
)

// Codes lists all of them, in the order they are documented.
func Codes() []Code {
	return []Code{
		CodeBadName, CodeNamespaceNotAllowed, CodeNotGranted, CodeDenied, CodeUnknownTool, CodeNoProvider,
		CodeBadArguments, CodeToolLimit, CodeToolTimeLimit, CodeRateLimited, CodeCircuitOpen, CodeTooLarge, CodeTimeout,
		CodeProviderError, CodeBadAnswer, CodeCancelled, CodeFinished, CodeAuditFailed,
		CodeApprovalDenied, CodeApprovalExpired,
		CodeNotRecorded, CodeDiverged,
	}
}

// maxMessage bounds what a guest is told about a failure.
const maxMessage = 480 // PROTOCOL.md says 500: a cut adds an ellipsis

// refusal is why a call was not carried out, or did not succeed.
type refusal struct {
	code    Code
	message string
	// detail is for operators and never reaches the guest.
	detail string
	// retryable is the provider's word for it; see retryableBy.
	retryable bool
	// foreign: message and detail may quote what the guest or a provider
	// said, of which a rule may have fields redacted.
	foreign bool
	// recorded: it is told again, and retryable is what was told then.
	recorded bool
}

// retryableBy reports whether the guest may make the same call again: it has
// had no effect, or its tool, nil if unknown, has each effect only once.
func (r *refusal) retryableBy(tool *Tool) bool {
	if r.recorded {
		return r.retryable
	}
	switch r.code {
	case CodeNoProvider, CodeRateLimited, CodeCircuitOpen:
		return true
	case CodeTimeout:
		return tool != nil && (tool.Idempotent || tool.ReadOnly)
	case CodeProviderError:
		return r.retryable
	}
	return false
}

// Error implements error.
func (r *refusal) Error() string { return string(r.code) + ": " + r.message }

func refusef(code Code, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}
