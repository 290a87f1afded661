// Package standalone starts what a whole Airlock on one machine needs beside
// its worker: an embedded NATS server with JetStream, and a private Postgres
// in a directory of its own. Both listen on loopback and end with the process
// that started them.
package standalone
