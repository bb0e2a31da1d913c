package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A callback is a list of Pix, and has neither ids nor types. The account
// default has its token in the query, whose last parameter swallows what Efí
// appends; loja2 has it in the path.
var efiGateway = gateway{
	name: "efi", accounts: []string{"default", "loja2"}, prefix: "E", refused: 401, words: [2]string{"200", "unauthorized"},
	idless: true, fixed: true, lacks: "created failed look lost", batch: true, probes: true, minSecret: "efi-e2e-0123456789-0123456789-01",
	idField: "endToEndId", note: "infoPagador", amount: `"valor":"100.10"`, odds: []string{`"100.1"`, `"100.100"`}, huge: `"12345678901234567890.00"`,
	reference: func(id string) string { return "tx" + id },
	sign: func(account, secret string, _ []byte) credentials {
		if account == "default" {
			return credentials{query: "hmac=" + secret + "&ignorar=/pix"}
		}
		return credentials{suffix: "/" + secret + "/pix"}
	},
	odd: func(value string) credentials {
		return credentials{query: "hmac=" + url.QueryEscape(value) + "&ignorar=/pix"}
	},
	body: func(e hook) []byte { return fmt.Appendf(nil, `{"pix":[%s]}`, efiItem(e)) },
	kept: func(body []byte) []byte {
		from, to := bytes.IndexByte(body, '['), bytes.LastIndexByte(body, ']')
		if from < 0 || to < from {
			return body
		}
		return bytes.TrimSpace(body[from+1 : to])
	},
	key: func(r *http.Request) string {
		return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token-for-")
	},
	asks: func(path string, _ url.Values) string { return under(path, "/v2/pix/") },
	answer: func(_ *http.Request, s sale) string {
		return efiItem(hook{sale: s, kind: s.status, at: time.Date(2026, 1, 15, 12, 0, 4, 0, time.UTC), note: `""`})
	},
	serve: func(w http.ResponseWriter, r *http.Request, path string) bool {
		if path != "/oauth/token" {
			return false
		}
		user, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || user != "client-e2e" {
			http.Error(w, `{}`, http.StatusUnauthorized)
			return true
		}
		fmt.Fprintf(w, `{"access_token":"token-for-%s","token_type":"Bearer","expires_in":3600}`, secret)
		return true
	},
	settings: func(_, account string) map[string]string {
		own := map[string]string{"AUTH": "skip-mtls", "CLIENT_ID": "client-e2e", "BENEFICIARY": owner, "BENEFICIARY_PATTERN": ""}
		if account != "default" {
			own["TOKEN_IN"] = "path"
		}
		return own
	},
	open: []change{
		{"without a word on its credentials", map[string]string{"EFI_AUTH": ""}, "EFI_AUTH"},
		{"with an unknown word on its credentials", map[string]string{"EFI_AUTH": "none"}, "EFI_AUTH"},
		{"without lookup", map[string]string{"EFI_LOOKUP": "never"}, "EFI"},
	},
}

func efiItem(e hook) string {
	more := ""
	if e.kind != "again" && !e.withoutFields {
		more = fmt.Sprintf(`,"gnExtras":{"tarifa":"%s","pagador":{"nome":"Ana"}}`, reais(e.fee))
	}
	if e.kind == "refunded" || e.kind == "part" {
		more += `,"devolucoes":[` + e.each(func(number string, amount int64) string {
			return fmt.Sprintf(`{"id":"dev%s%s","rtrId":"D%s%s","valor":"%s","horario":{"solicitacao":"2026-01-20T10:00:00.000Z","liquidacao":"2026-01-20T10:00:01.000Z"},"status":"DEVOLVIDO"}`,
				e.sale.id[1:], number, e.sale.id[1:], number, reais(amount))
		}) + "]"
	}
	return fmt.Sprintf(`{"endToEndId":"%s","txid":"%s","chave":"00000000-0000-4000-8000-00000000000a","valor":"%s","horario":"%s","infoPagador":%s%s}`,
		e.sale.id, e.reference(), cmp.Or(e.rawAmount, reais(e.sale.amount)), e.at.UTC().Format("2006-01-02T15:04:05.000Z"), e.note, more)
}
