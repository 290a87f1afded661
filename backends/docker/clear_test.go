package docker_test

import (
	"testing"
	"testing/synctest"

	"airlock/backends/docker"
)

// TestClearer: few removals wait, no more run at once than there are cores, who
// comes too many waits, and the end waits for all.
func TestClearer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := docker.NewClearer()
		room, cores := c.Room()
		release := make(chan struct{})
		running, late, waited := make(chan int, room+1), make(chan struct{}), make(chan struct{})
		for range room {
			c.Later(func() { running <- 1; <-release }) // returns though none is done
		}
		go func() {
			c.Later(func() { running <- 1 })
			close(late)
			c.Wait()
			close(waited)
		}()
		synctest.Wait()
		if len(running) != cores || closed(late) {
			t.Errorf("got %d removals at once, one more than %d let in: %v; want %d and false", len(running), room, closed(late), cores)
		}
		close(release)
		<-waited
		if len(running) != room+1 {
			t.Errorf("got %d removals when the end had waited, want %d", len(running), room+1)
		}
	})
}

// TestClearerGivesUp: an engine that hangs does not keep a worker from ending.
func TestClearerGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := docker.NewClearer()
		c.Hang()
		c.Wait()
	})
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
