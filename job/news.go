package job

import "time"

// News is what a worker tells of an attempt while it goes on. It may be lost
// on its way: the history has all of it but output, whose truth is the result.
type News struct {
	Kind    NewsKind  `json:"kind"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at,omitzero"`
	// Worker and Backend come with NewsClaimed.
	Worker  string `json:"worker,omitzero"`
	Backend string `json:"backend,omitzero"`
	// Stream is stdout or stderr, Offset where in it Data begins.
	Stream string `json:"stream,omitzero"`
	Offset int64  `json:"offset,omitzero"`
	Data   Bytes  `json:"data,omitzero"`
	// Link is the call's place in the attempt's chain, which orders calls'
	// starts and ends without gaps. Of arguments and answers nothing is told.
	Link      int       `json:"link,omitzero"`
	Seq       int       `json:"seq,omitzero"`
	Namespace string    `json:"namespace,omitzero"`
	Name      string    `json:"name,omitzero"`
	State     CallState `json:"state,omitzero"`
	Code      string    `json:"code,omitzero"`
}

// NewsKind is what happened.
type NewsKind string

// The kinds of news.
const (
	NewsClaimed NewsKind = "claimed"
	// NewsStarted: the guest has its code.
	NewsStarted NewsKind = "started"
	NewsOutput  NewsKind = "output"
	// NewsCall is the start or the end of a call, as State says.
	NewsCall NewsKind = "call"
)

// CallNews is the news that a call has just been recorded as c.
func CallNews(c *Call) News {
	n := News{
		Kind: NewsCall, Attempt: c.Attempt, At: c.Started, Link: c.StartLink, Seq: c.Seq,
		Namespace: c.Namespace, Name: c.Name, State: c.State, Code: c.Code,
	}
	if c.State != CallStarted {
		n.At, n.Link = c.Ended, c.EndLink
	}
	return n
}
