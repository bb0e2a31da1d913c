package e2e

import (
	"net/http"
	"net/url"
	"strings"
)

func sourceName(g *gateway, account string) string {
	if account == "default" {
		return g.name
	}
	return g.name + "/" + account
}

// variable is the full name of a setting.
func variable(g *gateway, account, setting string) string {
	return strings.ToUpper(strings.NewReplacer("/", "_", "-", "_").Replace(sourceName(g, account))) + "_" + setting
}

// secretsOf are the secrets of a source, the older one first.
func secretsOf(g *gateway, account string) []string {
	if g.secret != nil {
		return []string{g.secret(account, "old"), g.secret(account, "new")}
	}
	return []string{g.minSecret + "_" + account + "_old", g.minSecret + "_" + account + "_new"}
}

func apiKeyOf(g *gateway, account string) string { return "apikey_e2e_" + g.name + "_" + account }

// request is a request for a webhook address.
type request struct {
	target string
	header http.Header
	body   []byte
}

// request gives a body the credentials of an account.
func (g *gateway) request(account, secret string, body []byte) request {
	return g.with(account, g.sign(account, secret, body), body)
}

// with gives a body any credentials.
func (g *gateway) with(account string, c credentials, body []byte) request {
	r := request{"/webhooks/" + sourceName(g, account) + c.suffix, c.header.Clone(), body}
	if c.query != "" {
		r.target += "?" + c.query
	}
	if r.header == nil {
		r.header = http.Header{}
	}
	if r.header.Get("Content-Type") == "" {
		r.header.Set("Content-Type", "application/json")
		if g.form {
			r.header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	return r
}

// by is a request of the account that the cases use, with its older (0) or
// newer (1) secret.
func (g *gateway) by(age int, body []byte) request {
	return g.request(g.home(), secretsOf(g, g.home())[age], body)
}

// oddly is a request with a value of one's own where the credentials are.
func (g *gateway) oddly(value string, body []byte) request {
	if g.odd != nil {
		return g.with(g.home(), g.odd(value), body)
	}
	return g.with(g.home(), credentials{header: http.Header{g.header: {value}}}, body)
}

// keptOf is what is stored of a body.
func (g *gateway) keptOf(body []byte) []byte {
	if g.kept == nil {
		return body
	}
	return g.kept(body)
}

// token is the credential of a gateway with a shared token in a header.
func token(header, prefix string) func(account, secret string, body []byte) credentials {
	return func(_, secret string, _ []byte) credentials {
		return credentials{header: http.Header{header: {prefix + secret}}}
	}
}

// under is the id that a path has after a prefix, "" when it has more or less
// than one part there. Ids are read from the escaped path: one that broke out
// of its part is another one.
func under(path, prefix string) string {
	escaped, ok := strings.CutPrefix(path, prefix)
	if !ok || strings.Contains(escaped, "/") {
		return ""
	}
	id, err := url.PathUnescape(escaped)
	if err != nil {
		return ""
	}
	return id
}
