// Package faults breaks the parts of a real Airlock at every step of an
// attempt, and then holds what is in Postgres, in JetStream and in the books of
// a tool provider against what must always hold. All of it is tests;
// matrix_test.go is the table of what is broken when.
package faults
