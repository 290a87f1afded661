package gateway

import (
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"airlock/job"
)

// Execution is a request to run code at once, in the form of the sandboxed
// tool executors that people come from.
type Execution struct {
	Code           string  `json:"code" doc:"Python source."`
	TimeoutSeconds float64 `json:"timeout_seconds,omitzero" doc:"Of wall clock; 30 by default, at most 270."`
	MemoryLimitMB  float64 `json:"memory_limit_mb,omitzero" doc:"In MiB; 256 by default. There is no swap."`
	// CPULimit is a share of one processor. It is held as a budget: the code
	// gets timeout_seconds * cpu_limit of processor time, which is what a
	// quota would let it have until its timeout.
	CPULimit     float64 `json:"cpu_limit,omitzero" doc:"Processors; 1 by default. Over the timeout the code gets so much processor time."`
	AllowNetwork bool    `json:"allow_network,omitzero" doc:"Ask for a network, which an operator must have allowed."`
}

// Executed is how it ended.
type Executed struct {
	Status          string  `json:"status" enum:"success,timeout,memory_exceeded,error"`
	Stdout          string  `json:"stdout"`
	Stderr          string  `json:"stderr"`
	ExitCode        int     `json:"exit_code" doc:"124 for a timeout, 137 for memory, else the program's own."`
	ExecutionTimeMS float64 `json:"execution_time_ms"`
	MemoryUsedMB    float64 `json:"memory_used_mb" doc:"The most that it had at once, in MiB."`
}

// The statuses and exit codes of the executors' API.
const (
	executedSuccess = "success"
	executedTimeout = "timeout"
	executedMemory  = "memory_exceeded"
	executedError   = "error"

	exitTimeout = 124
	exitKilled  = 137
	exitSignal  = 128
)

const (
	// maxExecution leaves time for the queue within maxWait.
	maxExecution = 270 * time.Second
	// executionOutput is what is kept of each stream.
	executionOutput = 1 * job.MiB
	executionBatch  = "execute"
)

// execute runs code and answers with what came of it.
func (g *Gateway) execute(w http.ResponseWriter, r *request) error {
	var e Execution
	if err := g.decode(w, r, job.MaxSpec, &e); err != nil {
		return err
	}
	j, err := e.job(r.who.tenant)
	if err != nil {
		return err
	}
	receipt, err := g.runOne(r.Context(), j, options{wait: maxWait, leash: true})
	switch {
	case err != nil:
		return err
	case receipt.Result == nil && r.Context().Err() != nil:
		return r.Context().Err()
	case receipt.Result == nil:
		g.letGo(r.Context(), j.Tenant, j.ID)
		return problemf(CodeUnavailable, "the code did not get its turn in time: job %s was cancelled", j.ID).after(quotaPause)
	case receipt.Result.Status == job.StatusInfraError, receipt.Result.Status == job.StatusCancelled:
		return problemf(CodeUnavailable, "job %s: %s", j.ID, reasonOf(receipt.Result)).after(shortPause)
	}
	return answer(w, http.StatusOK, executed(receipt.Result))
}

func reasonOf(r *job.Result) string {
	if r.Error == nil {
		return string(r.Status)
	}
	return string(r.Status) + ": " + r.Error.Message
}

func (e *Execution) job(tenant string) (*job.Job, error) {
	for name, v := range map[string]float64{"timeout_seconds": e.TimeoutSeconds, "memory_limit_mb": e.MemoryLimitMB, "cpu_limit": e.CPULimit} {
		if v < 0 {
			return nil, problemf(CodeInvalidJob, "%s: is negative", name).with(FieldDetail{name, "is negative"})
		}
	}
	j := &job.Job{Code: e.Code, Batch: executionBatch, Network: e.AllowNetwork, MaxAttempts: 3}
	wall := seconds(e.TimeoutSeconds)
	if wall > maxExecution {
		return nil, problemf(CodeInvalidJob, "timeout_seconds: is more than %g: submit a job", maxExecution.Seconds()).
			with(FieldDetail{"timeout_seconds", "is too long"})
	}
	j.Limits = job.Limits{Wall: job.Duration(wall), Memory: job.Size(min(e.MemoryLimitMB*float64(job.MiB), math.MaxInt64/2)), Output: executionOutput, Result: job.MaxLimits().Result}
	if wall == 0 {
		wall = job.DefaultLimits().Wall.Std()
	}
	share := e.CPULimit
	if share == 0 {
		share = 1
	}
	budget := max(time.Duration(min(share*float64(wall), float64(job.MaxLimits().CPU))), job.MinLimits().CPU.Std())
	j.Limits.CPU = job.Duration(budget)
	return j, adopt(j, tenant)
}

func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), math.MaxInt64/2))
}

// executed tells a result in the words of that API.
func executed(r *job.Result) Executed {
	out := Executed{
		Status: executedError, Stdout: text(r.Stdout), Stderr: text(r.Stderr),
		ExecutionTimeMS: round(float64(r.Usage.Wall+r.Usage.ToolWait)/float64(time.Millisecond), 3),
		MemoryUsedMB:    round(float64(r.Usage.PeakMemory)/float64(job.MiB), 2),
	}
	switch r.Status {
	case job.StatusOK:
		out.Status = executedSuccess
	case job.StatusTimeout, job.StatusCPULimit, job.StatusToolLimit, job.StatusExpired:
		out.Status, out.ExitCode = executedTimeout, exitTimeout
	case job.StatusMemoryLimit:
		out.Status, out.ExitCode = executedMemory, exitKilled
	default:
		out.ExitCode = exitCode(r)
		if out.ExitCode == 0 {
			out.Status = executedSuccess
		}
	}
	out.Stderr = joined(out.Stderr, explained(r))
	return out
}

// exitCode is the program's own, or as a shell tells a signal. Only an end that
// was a program's success is 0: os._exit(0) is, and a value too large for a
// result, which nobody asked for here.
func exitCode(r *job.Result) int {
	number, signalled := signals[r.Signal]
	switch {
	case signalled:
		return exitSignal + number
	case r.Status == job.StatusPolicyViolation:
		return exitSignal + signals["SIGSYS"]
	case r.ExitCode == nil:
		return exitKilled
	case *r.ExitCode != 0 || r.Status == job.StatusNoResult || r.Status == job.StatusResultLimit:
		return *r.ExitCode
	case r.Status == job.StatusGuestError:
		return 1
	}
	return exitKilled
}

// signals are Linux's numbers, which guests have on every host.
var signals = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9,
	"SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31,
}

// explained is what a program would have had on stderr for its exception, or
// what ended it.
func explained(r *job.Result) string {
	switch {
	case r.Error == nil || r.Status == job.StatusOK || r.Status == job.StatusNoResult:
		return ""
	case r.Error.Traceback != "":
		return r.Error.Traceback
	case r.Status == job.StatusGuestError:
		return r.Error.Type + ": " + r.Error.Message
	}
	return "airlock: " + reasonOf(r)
}

func joined(a, b string) string {
	if a != "" && b != "" && !strings.HasSuffix(a, "\n") {
		a += "\n"
	}
	return a + b
}

func text(raw job.Bytes) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}
