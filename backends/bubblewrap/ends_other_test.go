//go:build !linux

package bubblewrap_test

import "testing"

// unknowable is empty where the backend is not available.
func unknowable(*testing.T) map[string]string { return map[string]string{} }
