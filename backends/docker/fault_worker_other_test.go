//go:build !linux

package docker_test

import (
	"context"
	"errors"
)

// workAs is for the tests that kill and confine workers, which are Linux's.
func workAs(context.Context, string) error {
	return errors.New("this system has no such worker")
}
