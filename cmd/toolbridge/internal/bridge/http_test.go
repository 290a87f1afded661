package bridge_test

import "net/http"

type httpRequest = http.Request

// recording notes the authorization of each request.
func recording(seen chan<- string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		if next != nil {
			next.ServeHTTP(w, r)
		}
	})
}

func redirecting(to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) })
}
