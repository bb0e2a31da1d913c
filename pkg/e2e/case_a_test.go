package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// exact sends a paid webhook with a text that a person wrote, and wants the
// same bytes stored and the money credited. change alters the request.
func (w *testWorld) exact(g *gateway, note string, change func(http.Header)) {
	w.t.Helper()
	s := newSale(g).paid()
	w.api.tells(g, s)
	h := newHook("paid", "evt_"+s.id, s)
	h.note = note
	body := g.body(h)
	req := g.by(0, body)
	if change != nil {
		change(req.header)
	}
	if r := w.post(req); r.err != nil || r.status != 200 {
		w.t.Errorf("%s: %d %q %v", note, r.status, r.body, r.err)
	}
	w.wantStored(g, body)
	w.wantCredited(g, s)
}

// forge wants a body refused under the credentials that were made for another
// one, where credentials cover the body.
func (w *testWorld) forge(g *gateway, signed, sent []byte) {
	w.t.Helper()
	if !g.signs {
		return
	}
	const name, label = "umavez_ingest_rejected_total", "reason=digest_differs"
	before := w.ingestMetric(name, "provider="+g.name, label)
	req := g.by(0, signed)
	req.body = sent
	r := w.post(req)
	if r.status != g.refused {
		w.t.Errorf("%d %q, want %d", r.status, r.body, g.refused)
	}
	if n := w.ingestMetric(name, "provider="+g.name, label) - before; n != 1 {
		w.t.Errorf("digest_differs was counted %v times", n)
	}
	if _, found := w.withBody(g, sent); found {
		w.t.Error("a body that was refused is stored")
	}
}

func TestCase_A1_TheBytesAreCheckedAndKeptAsTheyCame(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		body := string(g.body(newHook("paid", "evt_"+s.id, s)))
		odd := strings.NewReplacer(`"id":`, `"id" :  `, `"status":`, "\n\t\"status\":", `100.10`, `100.100`, `},`, "} , ", `"data":`, `"data" : `,
			"%5B", "[", "%5D", "%5d", "status=", "st%61tus=").Replace(body)
		w.forge(g, []byte(odd), []byte(body))
		w.forge(g, []byte(odd), []byte(odd+"\n"))
		if odd == body {
			w.t.Fatal("the body was not rewritten")
		}
		w.take(g, []byte(odd))
		w.wantStored(g, []byte(odd))
		w.wantCredited(g, s)
	})
}

func TestCase_A3_UnicodeLineSeparatorsStayWhatTheyAre(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		w.exact(g, "\"Ana\u2028Maria\u2029Silva\u0085\"", nil)
		w.exact(g, `"Ana\u2028Maria\u2029Silva"`, nil)
	})
}

func TestCase_A5_EscapesOfTheSenderStayAsHeWroteThem(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		const note = `"https:\/\/loja.example\/a\u0026b \u003c\u00E7\u00e3o\u003e"`
		w.exact(g, note, nil)
		h := newHook("paid", "evt_x", newSale(g).paid())
		h.note = note
		signed := g.body(h)
		w.forge(g, signed, []byte(strings.ReplaceAll(string(signed), `\/`, `/`)))
		w.forge(g, signed, []byte(strings.ReplaceAll(string(signed), `\u0026`, `&`)))
	})
}

func TestCase_A6_LettersCutByPacketsAndChunksReachTheLedger(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		for _, chunked := range []bool{false, true} {
			s := newSale(g).paid()
			w.api.tells(g, s)
			h := newHook("paid", "evt_"+s.id, s)
			h.note = `"São João – ação 💳"`
			body := g.body(h)
			length := fmt.Sprintf("Content-Length: %d", len(body))
			if chunked {
				length = "Transfer-Encoding: chunked"
			}
			conn := dialRaw(w.t, w.addr())
			req := g.by(0, body)
			writeRaw(w.t, conn, []byte(head(req.target, req.header, length)))
			for i := range body {
				piece := body[i : i+1]
				if chunked {
					piece = append(append([]byte("1\r\n"), body[i]), "\r\n"...)
				}
				writeRaw(w.t, conn, piece)
			}
			if chunked {
				writeRaw(w.t, conn, []byte("0\r\n\r\n"))
			}
			if status, text := readAnswer(conn); status != 200 {
				w.t.Errorf("chunked %v: %d %q", chunked, status, text)
			}
			w.wantStored(g, body)
			w.wantCredited(g, s)
		}
	})
}

func TestCase_A7_TheDeclaredCharsetIsNotBelieved(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		for _, contentType := range []string{
			"application/json; charset=utf-8", "application/json; charset=ISO-8859-1", "application/json; charset=\"us-ascii", "text/plain; charset=utf-16",
			"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "",
		} {
			w.exact(g, `"R$ 10 – ₹ 99 – 💳"`, func(h http.Header) { h.Set("Content-Type", contentType) })
		}
	})
}

func TestCase_A9_OddCredentialsAreRefusedAndCountedOnce(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		body := g.body(newHook("paid", "evt_a9", newSale(g).paid()))
		for name, value := range map[string]string{
			"not ASCII": "v1=\xe9\xa9", "not ASCII with a time": "t=1767225600,v1=\xe9\xa9", "64 KB": strings.Repeat("a", 64<<10),
			"a long list": "t=1767225600," + strings.Repeat("v1=aa,", 9000), "empty": "", "a blank": " ", "NUL as text": `\x00`,
			"a scheme word alone": "Bearer", "a scheme word with a blank": "Bearer ", "a time that overflows": "t=99999999999999999999,v1=" + strings.Repeat("0", 64),
			"a negative time": "t=-1,v1=" + strings.Repeat("0", 64),
		} {
			before, panics := w.ingestMetric("umavez_ingest_rejected_total", "provider="+g.name), w.ingestMetric("umavez_ingest_panics_total")
			if r := w.post(g.oddly(value, body)); r.status != g.refused {
				w.t.Errorf("%s: %d %q, want %d", name, r.status, r.body, g.refused)
			}
			if n := w.ingestMetric("umavez_ingest_rejected_total", "provider="+g.name) - before; n != 1 {
				w.t.Errorf("%s: counted %v times", name, n)
			}
			if w.ingestMetric("umavez_ingest_panics_total") != panics {
				w.t.Errorf("%s: a panic", name)
			}
		}
	})
}

func TestCase_A13_ABatchFromAGatewayThatSendsNoneIsKeptForAPerson(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		one := string(g.body(newHook("paid", "evt_a13", newSale(g).paid())))
		w.become(g, []want{
			{`[]`, "quarantined", "unreadable"}, {`[ ]`, "quarantined", "unreadable"}, {`[` + one + `]`, "quarantined", "unreadable"},
			{`[` + one + `,` + one + `]`, "quarantined", "unreadable"}, {`"text"`, "quarantined", "unreadable"}, {`7`, "quarantined", "unreadable"},
		})
	})
}

func TestCase_A25_IdsInHeadersThatNobodySignedAreNoKeys(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		send := func(body []byte, id string) {
			req := g.by(1, body)
			for _, name := range []string{"Webhook-Id", "X-Request-Id", "Idempotency-Key", "X-Event-Id", "Nats-Msg-Id", "Asaas-Event-Id", "X-Product-Id"} {
				if req.header.Get(name) == "" { // where it is signed it is not ours to change
					req.header.Set(name, id)
				}
			}
			if r := w.post(req); r.status != 200 {
				w.t.Errorf("%d %q", r.status, r.body)
			}
		}
		s, other := newSale(g).paid(), newSale(g).paid()
		w.api.tells(g, s)
		w.api.tells(g, other)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		for i := range 3 {
			send(body, fmt.Sprint("header_", i))
		}
		send(g.body(newHook("paid", "evt_"+other.id, other)), "header_0")
		w.wantCredited(g, s)
		w.wantCredited(g, other)
		if e := w.about(g, s.id); len(e) != 1 || e[0].Deliveries != 3 {
			w.t.Errorf("one body with three ids in headers is %v", e)
		}
	})
}

func TestCase_A26_AByteOrderMarkIsSignedKeptAndReadOver(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		const mark = "\xef\xbb\xbf"
		for _, marks := range []string{mark, mark + mark} {
			s := newSale(g).paid()
			w.api.tells(g, s)
			plain := g.body(newHook("paid", "evt_"+s.id, s))
			w.forge(g, plain, []byte(marks+string(plain)))
			w.take(g, []byte(marks+string(plain)))
			w.wantStored(g, []byte(marks+string(plain)))
			w.wantCredited(g, s)
		}
		w.become(g, []want{{"\xff\xfe{\x00}\x00", "quarantined", "unreadable"}, {mark + "<xml/>", "quarantined", "unreadable"}})
		if !g.form {
			w.become(g, []want{{mark + "event=paid&id=1", "quarantined", "unreadable"}})
		}
		if !g.probes { // with nothing behind them they are a body that says nothing
			w.become(g, []want{{mark, "quarantined", "unreadable"}})
		}
	})
}
