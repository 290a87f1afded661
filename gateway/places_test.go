package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"airlock/gateway"
)

// TestASlowHostDelaysNoOther: with more callbacks of a host that does not
// answer than there are places, those of another tenant's arrive.
func TestASlowHostDelaysNoOther(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(release) })
	quick := receive(t, 200)
	// Nothing at the slow host times out while the test lasts.
	w := start(t, setUp{gateway: here(gateway.CallbackConfig{Patience: 10 * time.Minute}), public: true})
	bad, good := w.token("bad"), w.token("good")
	for i := range 60 {
		w.submitted(fmt.Sprintf(`{"code": "1", "callback": {"url": "%s/%d"}}`, slow.URL, i), bad)
	}
	w.submitted(fmt.Sprintf(`{"code": "1", "callback": {"url": %q}}`, quick.URL), good)
	w.submitted(fmt.Sprintf(`{"code": "1", "callback": {"url": "%s/of-the-same"}}`, quick.URL), bad)
	eventually(t, "both are told", func() bool { return quick.calls() == 2 })
}

func TestMissedEndsAreForgotten(t *testing.T) {
	t.Parallel()
	kept, first, last := gateway.Remember(gateway.MaxPending + 1)
	if kept > gateway.MaxPending || first || !last {
		t.Errorf("got %d kept, the first %v and the last %v; want at most %d, without the oldest", kept, first, last, gateway.MaxPending)
	}
}
