package store_test

import (
	"testing"
	"time"

	"airlock/job"
	"airlock/store"
	"airlock/store/storetest"
)

// TestACallbackIsToldByOne: the news of an end have it taken at once, also from
// whoever is just looking whether the end has come.
func TestACallbackIsToldByOne(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	ctx := t.Context()
	c := store.Callback{ID: job.NewID(), Tenant: "a", Job: job.NewID(), URL: "https://example.org/"}
	if err := s.AddCallback(ctx, c, 0); err != nil {
		t.Fatal(err)
	}
	take := func() []store.Callback {
		t.Helper()
		all, err := s.TakeCallbacks(ctx, 10, time.Hour, store.Busy{})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	tell := func(who string, c store.Callback, want bool) {
		t.Helper()
		if ours, err := s.TellCallback(ctx, c); err != nil || ours != want {
			t.Errorf("%s: got ours %t and error %v, want %t", who, ours, err, want)
		}
	}
	first := take()
	if len(first) != 1 || len(take()) != 0 {
		t.Fatalf("got %d callbacks, and then more, want one, once", len(first))
	}
	if err := s.CallbacksDue(ctx, []job.ID{c.ID}); err != nil {
		t.Fatal(err)
	}
	second := take()
	if len(second) != 1 {
		t.Fatalf("got %d callbacks after the news of an end, want one", len(second))
	}
	// What the first does now leaves the second's alone.
	tell("the first", first[0], false)
	if err := s.PostponeCallback(ctx, first[0], time.Minute); err != nil {
		t.Error(err)
	}
	if err := s.ReturnCallbacks(ctx, first); err != nil {
		t.Error(err)
	}
	tell("the second", second[0], true)
	if err := s.CallbacksDue(ctx, []job.ID{c.ID}); err != nil {
		t.Fatal(err)
	}
	if again := take(); len(again) != 0 {
		t.Errorf("got %d callbacks while one is told, want none", len(again))
	}
	if err := s.ReturnCallbacks(ctx, second); err != nil || len(take()) != 1 {
		t.Errorf("got error %v and nothing, want what was given back", err)
	}
}
