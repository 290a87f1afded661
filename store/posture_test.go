package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"airlock/store"
	"airlock/store/storetest"
)

func TestLook(t *testing.T) {
	t.Parallel()
	pg := storetest.Server(t)
	got, err := store.Look(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	want := store.Posture{Listens: "127.0.0.1", Superuser: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a server that asks for a password (-want +got):\n%s", diff)
	}

	trustAll(t, pg.URL())
	want.Open = true
	deadline := time.Now().Add(time.Minute)
	for got.Open = false; !got.Open && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got, err = store.Look(t.Context(), pg.URL()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a server that asks for none (-want +got):\n%s", diff)
	}
}

// trustAll makes the server ask nobody for a password.
func trustAll(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var file string
	if err := conn.QueryRow(t.Context(), "SHOW hba_file").Scan(&file); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"COPY (SELECT 'host all all 127.0.0.1/32 trust') TO '" + file + "'", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLookAtNothing(t *testing.T) {
	t.Parallel()
	if _, err := store.Look(t.Context(), "postgres://u:secret@127.0.0.1:1/x"); err == nil {
		t.Error("got no error of a server that is not there")
	}
}
