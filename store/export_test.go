package store

// UnannouncedSQL is the statement of Unannounced, for a look at its plan.
const UnannouncedSQL = unannouncedSQL
