package e2e

import (
	"net/http"
	"testing"
)

// By the contracts, what each gateway takes for success and for a refusal, to
// the letter: 201 and 204 count as failures at some of them.
func TestCase_D11_EachGatewayGetsExactlyItsAnswers(t *testing.T) {
	const text = "text/plain; charset=utf-8"
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		nonsense := []byte("<xml/>" + s.id)
		forged := g.oddly("e2e-forged-0123456789-0123456789-0123456789", body)
		wrong := g.by(1, body)
		wrong.target = "/webhooks/nobody"
		get := func(method string) reply {
			req, err := http.NewRequest(method, "http://"+w.addr()+g.by(1, body).target, nil)
			if err != nil {
				return reply{err: err}
			}
			return doRequest(req)
		}
		for _, c := range []struct {
			what string
			got  reply
			want reply
		}{
			{"a new event", w.send(g, body), reply{status: 200, body: g.words[0], kind: text}},
			{"a duplicate", w.send(g, body), reply{status: 200, body: g.words[0], kind: text}},
			{"the older secret", w.post(g.by(0, body)), reply{status: 200, body: g.words[0], kind: text}},
			{"what nobody can read", w.send(g, nonsense), reply{status: 200, body: g.words[0], kind: text}},
			{"wrong credentials", w.post(forged), reply{status: g.refused, body: g.words[1], kind: text}},
			{"another gateway", w.post(wrong), reply{status: 404, body: "not found\n", kind: text}},
			{"a GET", get(http.MethodGet), reply{status: 405, body: "method not allowed\n", kind: text}},
			{"a PUT", get(http.MethodPut), reply{status: 405, body: "method not allowed\n", kind: text}},
		} {
			if c.got != c.want {
				w.t.Errorf("%s is answered %+v, want %+v", c.what, c.got, c.want)
			}
		}
		w.wantCredited(g, s)
		if e := w.about(g, s.id); len(e) != 1 || e[0].Deliveries != 3 {
			w.t.Errorf("the event is %v", e)
		}
	})
}
