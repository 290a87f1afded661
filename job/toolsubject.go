package job

// ToolSubjects begins the subject of every tool.
const ToolSubjects = "tools."

// ToolSubject is where the calls of a tool go. Both names must be valid tool
// names, or the wildcard that stands for all.
func ToolSubject(namespace, tool string) string { return ToolSubjects + namespace + "." + tool }

// ToolCancel is where all providers of a namespace learn which of its calls
// nobody waits for any more.
func ToolCancel(namespace string) string { return "toolcancel." + namespace }

// ToolInbox begins the inboxes where workers wait for the answers of tools,
// below the prefix of all their inboxes: providers may publish there, and not
// where workers wait for anything else.
func ToolInbox(inboxPrefix string) string { return inboxPrefix + ".tools" }
