package ingest

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// smallBody is the part of a body that is not counted against LargeBytes: nearly
// all webhooks are smaller. Times MaxRequests it is memory that strangers can
// have, so it is no more than that.
const smallBody = 8 << 10

// The reasons why a body is not read. Each has one answer.
var (
	errTooLarge  = errors.New("body too large")
	errTooSlow   = errors.New("body too slow")
	errTruncated = errors.New("body cut short or malformed")
	errEncoding  = errors.New("content encoding unknown")
	errNoMemory  = errors.New("too many large bodies at once")
)

// budget bounds the memory of large bodies over all requests.
type budget struct{ left atomic.Int64 }

func (b *budget) take(n int64) bool {
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return false
	}
	return true
}

// loan is what one request has taken of the budget.
type loan struct {
	from *budget
	n    int64
}

// cover makes the loan suffice for so many bytes in all.
func (l *loan) cover(bytes int64) bool {
	need := bytes - smallBody - l.n
	if need <= 0 {
		return true
	}
	if !l.from.take(need) {
		return false
	}
	l.n += need
	return true
}

func (l *loan) giveBack() {
	l.from.left.Add(l.n)
	l.n = 0
}

// readBody reads the bytes as sent, up to limit. The deadline is the
// connection's, so a sender that stalls is noticed without a goroutine.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, deadline time.Time, l *loan) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge // before a single byte: Expect: 100-continue is never granted
	}
	rc := http.NewResponseController(w)
	timed := rc.SetReadDeadline(deadline) == nil
	body, err := readAll(http.MaxBytesReader(w, r.Body, limit), limit, r.ContentLength, 0, l)
	if timed {
		// What follows waits for the commit; a passed deadline would look like
		// a client that went away.
		rc.SetReadDeadline(time.Time{}) //nolint:errcheck // it was possible a moment ago
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooLarge), errors.Is(err, errTooLarge):
		return nil, errTooLarge
	case errors.Is(err, errNoMemory):
		return nil, errNoMemory
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errTooSlow
	}
	return nil, errTruncated
}

// leftoverTimeout is for the rest of a body that nobody wants.
const leftoverTimeout = 500 * time.Millisecond

// leaveUnread is called before an answer to a request whose body was not read.
// The server reads what is left of it before it sends the answer, so that the
// connection can be used again: a sender whose body is on its way keeps his
// connection, and one who does not send it gets his answer all the same, and
// does not hold us up for as long as a whole request may take.
func leaveUnread(w http.ResponseWriter) {
	//nolint:errcheck // where it is not possible, the time-out of the whole request holds
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftoverTimeout))
}

// readAll reads to the end, at most limit bytes. expected is the announced
// length or -1; it is believed only as far as smallBody, because announcing is
// free. held are bytes that the same request holds already.
func readAll(r io.Reader, limit, expected, held int64, l *loan) ([]byte, error) {
	size := int64(2 << 10)
	if expected >= 0 {
		size = min(expected, smallBody-1) + 1 // one more, so that the end is seen without growing
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			grown := min(2*int64(cap(buf))+512, limit+1)
			if expected >= int64(cap(buf)) {
				grown = min(grown, expected+1)
			}
			if !l.cover(held + grown) {
				return nil, errNoMemory
			}
			bigger := make([]byte, len(buf), grown)
			copy(bigger, buf)
			buf = bigger
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, errTooLarge
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

// decodeBody undoes Content-Encoding under the same limit. encoded says that
// there was one. A bomb stops at the limit: nothing beyond it is kept.
func decodeBody(h http.Header, sent []byte, limit int64, l *loan) (body []byte, encoded bool, err error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	var from io.Reader
	switch coding {
	case "", "identity":
		return sent, false, nil
	case "gzip", "x-gzip":
		gz := gzipReaders.Get().(*gzip.Reader)
		defer func() {
			gz.Reset(bytes.NewReader(nil)) //nolint:errcheck // only to let go of the body
			gzipReaders.Put(gz)
		}()
		if err := gz.Reset(bytes.NewReader(sent)); err != nil {
			return nil, true, errTruncated
		}
		from = gz
	case "deflate":
		from = inflater(sent)
	default:
		return nil, true, errEncoding
	}
	body, err = readAll(from, limit, -1, int64(len(sent)), l)
	switch {
	case err == nil:
		return body, true, nil
	case errors.Is(err, errTooLarge), errors.Is(err, errNoMemory):
		return nil, true, err
	}
	return nil, true, errTruncated
}

// inflater reads "deflate", which is zlib by the standard, and the raw form
// that some senders use instead.
func inflater(sent []byte) io.Reader {
	if z, err := zlib.NewReader(bytes.NewReader(sent)); err == nil {
		return z
	}
	return flate.NewReader(bytes.NewReader(sent))
}
