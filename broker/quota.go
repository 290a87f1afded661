package broker

// quotas are what one attempt has used of the tools that the operator's rules
// bound: their calls, and the bytes of arguments and answers.
type quotas map[toolName]*quota

type quota struct {
	calls int
	bytes int64
}

// quota is called with mu held. It is nil for a call that no rule bounds so.
func (s *session) quota(f *flight) *quota {
	if f.rule == nil || f.rule.Calls == 0 && f.rule.Bytes == 0 {
		return nil
	}
	if s.quotas == nil {
		s.quotas = quotas{}
	}
	q := s.quotas[f.toolName()]
	if q == nil {
		q = &quota{}
		s.quotas[f.toolName()] = q
	}
	return q
}

func (f *flight) toolName() toolName { return toolName{f.tool.Namespace, f.tool.Name} }

// charge takes a call and its arguments out of what the rule leaves the
// attempt. It is called with mu held.
func (s *session) charge(f *flight) *refusal {
	q, size := s.quota(f), int64(len(f.ask.Arguments))
	switch {
	case q == nil:
		return nil
	case f.rule.Calls > 0 && q.calls >= f.rule.Calls:
		return refusef(CodeToolLimit, "%d calls of %s.%s have been made, which is the operator's limit for one job", q.calls, f.tool.Namespace, f.tool.Name)
	case f.rule.Bytes > 0 && q.bytes+size > int64(f.rule.Bytes):
		return f.overBytes(q.bytes + size)
	}
	q.calls++
	q.bytes += size
	return nil
}

func (f *flight) overBytes(bytes int64) *refusal {
	return refusef(CodeToolLimit, "with this, arguments and answers of %s.%s are %d bytes, the operator's limit for one job is %s",
		f.tool.Namespace, f.tool.Name, bytes, f.rule.Bytes)
}

// spend takes an answer out of the bytes. One that does not fit is counted all
// the same: the provider made it.
func (s *session) spend(f *flight, answer int) *refusal {
	if f.rule == nil || f.rule.Bytes == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.quota(f)
	if q.bytes += int64(answer); q.bytes <= int64(f.rule.Bytes) {
		return nil
	}
	s.report.ToolLimited = true
	return f.overBytes(q.bytes)
}

// giveBack undoes what letThrough counted, for a call that was not made.
func (s *session) giveBack(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried--
	if q := s.quota(f); q != nil {
		q.calls--
		q.bytes -= int64(len(f.ask.Arguments))
	}
}
