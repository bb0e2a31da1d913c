// Package ingest receives webhooks: it reads a request, has the gateway's
// provider check its credentials and split it into events, stores them, and
// gives the exact answer that the gateway's contract asks for.
//
// What it promises: a success answer means that every event of the request has
// a row whose commit was flushed, written now or before. Anything that is not
// known to be stored is answered with an error, so that the gateway sends it
// again; what was stored after all is then a duplicate. It does not promise
// that a message reached the queue: PostgreSQL is the truth and the queue is
// only the bell, which the sweeper rings again.
//
//	request --read, decode--> Verify --> Parse --> unit --+
//	request ------------------------------------> unit --+--queue--> flusher --one statement--> store
//	request ------------------------------------> unit --+                |
//	   ^                                                                  +--> Offer to the publisher
//	   +------------------------ answer <---------------- result by key --+
//
// Group commit without a delay: a flusher takes whatever waits as soon as it
// is free. One request alone is as fast as a plain insert; under load the
// batches grow by themselves, since requests gather while the flushers are
// busy.
//
// The package opens connections neither to the database nor to the broker; it
// says what it needs of them as small interfaces.
package ingest
