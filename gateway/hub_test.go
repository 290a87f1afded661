package gateway_test

import (
	"slices"
	"testing"

	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
)

func TestNewsReachTheirTenantAsFarAsTheyAreTaken(t *testing.T) {
	t.Parallel()
	id, other := job.NewID(), job.NewID()
	small := queue.Event{Tenant: "a", Job: id, Size: 10}
	large := queue.Event{Tenant: "a", Job: id, Size: 600 << 10}
	for _, c := range []struct {
		name  string
		news  []queue.Event
		end   queue.Announcement
		got   int
		ended bool
		ok    bool
	}{
		{"its own", []queue.Event{small, small}, queue.Announcement{Tenant: "a", Job: id}, 2, true, true},
		{"another job's", []queue.Event{{Tenant: "a", Job: other}}, queue.Announcement{Tenant: "a", Job: other}, 0, false, true},
		{"forged by another tenant", []queue.Event{{Tenant: "b", Job: id}}, queue.Announcement{Tenant: "b", Job: id}, 0, false, true},
		{"as many as are kept", slices.Repeat([]queue.Event{small}, 1024), queue.Announcement{}, 1024, false, true},
		{"too many", slices.Repeat([]queue.Event{small}, 1025), queue.Announcement{}, 0, false, false},
		{"too large", []queue.Event{large, large}, queue.Announcement{}, 0, false, false},
		{"more after too many", slices.Repeat([]queue.Event{small}, 5000), queue.Announcement{}, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ended, ok := gateway.Hear("a", id, c.news, c.end)
			if got != c.got || ended != c.ended || ok != c.ok {
				t.Errorf("got %d news, ended %t, ok %t, want %d, %t, %t", got, ended, ok, c.got, c.ended, c.ok)
			}
		})
	}
}
