package efi_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/efi"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	token    = "tests-only-2f9c1d7ae0b4465c93d1aa07"
	oldToken = "previous-0a1b2c3d4e5f60718293a4b5c6"
	clientID = "Client_Id_of_the_tests"
	apiKey   = "Client_Secret_of_the_tests_only"
)

var now = time.Date(2026, 1, 15, 12, 0, 6, 0, time.UTC)

// pair is a client certificate and its key, made for this run.
var pair = sync.OnceValues(func() (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		panic(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
})

// source is a complete one, with some settings changed; "" unsets one.
func source(changes ...string) provider.Source {
	all := map[string]string{"AUTH": "skip-mtls", "CLIENT_ID": clientID, "CERTIFICATE_FILE": "cert.pem", "CERTIFICATE_KEY_FILE": "key.pem"}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		all[name] = value
	}
	return provider.Source{
		Provider: "efi", Account: provider.DefaultAccount, Production: true,
		WebhookSecrets: []provider.Secret{token, oldToken}, APIKey: apiKey, Lookup: provider.LookupAlways,
		Setting: func(name string) string { return all[name] },
		File: func(name string) ([]byte, error) {
			cert, key := pair()
			switch all[name] {
			case "cert.pem":
				return cert, nil
			case "key.pem":
				return key, nil
			case "both.pem":
				return append(append([]byte{}, key...), cert...), nil
			case "other.pem":
				return []byte("canary: not a certificate"), nil
			}
			return nil, errors.New("EFI_" + name + " names a file that cannot be read")
		},
	}
}

func build(t testing.TB, src provider.Source) provider.Provider {
	t.Helper()
	p, err := efi.New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sign is a callback to an address that was registered with &ignorar= at its
// end, as Efí recommends.
func sign(secret string, body []byte, now time.Time) provider.Request {
	return provider.Request{Header: http.Header{}, Query: "hmac=" + url.QueryEscape(secret) + "&ignorar=/pix", Body: body, Now: now}
}

const (
	pixID    = "E00000000202601151200EXAMPLE0001"
	paidItem = `{"endToEndId":"E00000000202601151200EXAMPLE0001","txid":"exampletxid00000000000000001","chave":"00000000-0000-4000-8000-00000000000a",` +
		`"valor":"149.90","horario":"2026-01-15T12:00:04.000Z","infoPagador":"PED-1001"}`
	paidBody = `{"pix":[` + paidItem + `]}`
)

// with is an item with further members.
func with(members ...string) string {
	return strings.TrimSuffix(paidItem, "}") + "," + strings.Join(members, ",") + "}"
}

func devolucao(id, valor, status string, more ...string) string {
	return `{"id":"` + id + `","rtrId":"D00000000202601201000EXAMPLE0001","valor":"` + valor + `","status":"` + status +
		`","horario":{"solicitacao":"2026-01-20T10:00:00.000Z","liquidacao":"2026-01-20T10:00:07.250Z"}` + strings.Join(append([]string{""}, more...), ",") + `}`
}

func devolucoes(all ...string) string { return `"devolucoes":[` + strings.Join(all, ",") + `]` }

// withToken stands before an API and gives out access tokens.
func withToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/oauth/token") {
			fmt.Fprint(w, `{"access_token":"the-token-of-the-tests","token_type":"Bearer","expires_in":3600,"scope":"pix.read"}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

var (
	paidAt     = time.Date(2026, 1, 15, 12, 0, 4, 0, time.UTC)
	refundedAt = time.Date(2026, 1, 20, 10, 0, 7, 250e6, time.UTC)
	paidFact   = payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid, At: paidAt}
)

func refundFact(id string, cents int64, state payment.RefundState) payment.Fact {
	return payment.Fact{Kind: payment.FactRefund, ID: pixID + ":" + id, Amount: payment.Of(cents), Refund: state, OneSum: true, At: refundedAt}
}

func lostFact(id string, cents int64) payment.Fact {
	return payment.Fact{Kind: payment.FactDispute, ID: pixID + ":" + id, Amount: payment.Of(cents), Dispute: payment.DisputeLost, OneSum: true, At: refundedAt}
}

func lookups() []providertest.Lookup {
	row := func(name, body string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: name, Ref: pixID, Answer: answer(body), Status: leads, Facts: facts}
	}
	fee := payment.Fact{Kind: payment.FactFee, ID: pixID, Amount: payment.Of(179)}
	rows := []providertest.Lookup{
		row("paid", paidItem, payment.StatusPaid, paidFact),
		row("paid, with a fee", with(`"gnExtras":{"tarifa":"1.79"}`), payment.StatusPaid, paidFact, fee),
		row("paid, a fee of zero", with(`"gnExtras":{"tarifa":"0.00"}`), payment.StatusPaid, paidFact),
		row("paid, extras that are an empty list", with(`"gnExtras":[],"devolucoes":null`), payment.StatusPaid, paidFact),
		row("a refund under way", with(devolucoes(devolucao("1", "149.90", "EM_PROCESSAMENTO"))), payment.StatusPaid, paidFact, refundFact("1", 14990, payment.RefundPending)),
		row("a refund that did not come about", with(devolucoes(devolucao("1", "149.90", "NAO_REALIZADO"))), payment.StatusPaid, paidFact, refundFact("1", 14990, payment.RefundFailed)),
		row("a part refunded", with(devolucoes(devolucao("1", "49.90", "DEVOLVIDO"))), payment.StatusPartiallyRefunded, paidFact, refundFact("1", 4990, payment.RefundSucceeded)),
		row("all refunded in parts", with(devolucoes(devolucao("b", "100.00", "DEVOLVIDO"), devolucao("a", "49.90", "DEVOLVIDO"))), payment.StatusRefunded,
			paidFact, refundFact("a", 4990, payment.RefundSucceeded), refundFact("b", 10000, payment.RefundSucceeded)),
		row("a nature of tomorrow is a refund", with(devolucoes(devolucao("1", "149.90", "DEVOLVIDO", `"natureza":"UMA_NOVA"`))), payment.StatusRefunded, paidFact, refundFact("1", 14990, payment.RefundSucceeded)),
		row("taken back for fraud", with(devolucoes(devolucao("1", "149.90", "DEVOLVIDO", `"natureza":"MED_FRAUDE"`))), payment.StatusChargedBack, paidFact, lostFact("1", 14990)),
		row("taken back for a fault, after a refund", with(devolucoes(devolucao("1", "49.90", "DEVOLVIDO"), devolucao("2", "100.00", "DEVOLVIDO", `"natureza":"MED_OPERACIONAL"`))), payment.StatusChargedBack,
			paidFact, refundFact("1", 4990, payment.RefundSucceeded), lostFact("2", 10000)),
		row("being taken back", with(devolucoes(devolucao("1", "149.90", "EM_PROCESSAMENTO", `"natureza":"MED_FRAUDE"`))), payment.StatusPaid, paidFact),
		row("not taken back after all", with(devolucoes(devolucao("1", "149.90", "NAO_REALIZADO", `"natureza":"MED_PIX_AUTOMATICO"`))), payment.StatusPaid, paidFact),
	}
	for name, r := range map[string]providertest.Lookup{
		"a Pix that we sent, by its tipo":           {Answer: answer(with(`"tipo":"SOLICITACAO","status":"REALIZADO"`)), Err: provider.ErrMismatch},
		"a Pix that we sent, by its idEnvio":        {Answer: answer(with(`"gnExtras":{"idEnvio":"x"}`)), Err: provider.ErrMismatch},
		"a Pix of no charge":                        {Answer: answer(strings.Replace(paidItem, `"txid":"exampletxid00000000000000001",`, "", 1)), Err: provider.ErrUnreadable},
		"a refund of a status of tomorrow":          {Answer: answer(with(devolucoes(devolucao("1", "1.00", "EM_ANALISE")))), Err: provider.ErrUnreadable},
		"a refund without an id":                    {Answer: answer(with(devolucoes(devolucao("", "1.00", "DEVOLVIDO")))), Err: provider.ErrUnreadable},
		"two refunds with one id":                   {Answer: answer(with(devolucoes(devolucao("1", "1.00", "DEVOLVIDO"), devolucao("1", "1.00", "DEVOLVIDO")))), Err: provider.ErrUnreadable},
		"an amount that is zero":                    {Answer: answer(strings.Replace(paidItem, "149.90", "0.00", 1)), Err: provider.ErrUnreadable},
		"a fee that is not an amount":               {Answer: answer(with(`"gnExtras":{"tarifa":"1%"}`)), Err: provider.ErrUnreadable},
		"extras that are a text":                    {Answer: answer(with(`"gnExtras":"x"`)), Err: provider.ErrUnreadable},
		"the Pix in a list, as in a callback":       {Answer: answer(paidBody), Err: provider.ErrMismatch},
		"a fee that is not an amount, left unread":  {Answer: answer(with(`"gnExtras":{"tarifa":"1%"}`)), Setting: map[string]string{"TARIFA": "ignore"}, Facts: []payment.Fact{paidFact}, Status: payment.StatusPaid},
		"a fee, which the settings say it is not":   {Answer: answer(with(`"gnExtras":{"tarifa":"1.79"}`)), Setting: map[string]string{"TARIFA": "ignore"}, Facts: []payment.Fact{paidFact}, Status: payment.StatusPaid},
		"a time that is none does not hold it up":   {Answer: answer(strings.Replace(paidItem, "2026-01-15T12:00:04.000Z", "ontem", 1)), Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}}, Status: payment.StatusPaid},
		"a time that is a list does not, either":    {Answer: answer(strings.Replace(paidItem, `"2026-01-15T12:00:04.000Z"`, "[1]", 1)), Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}}, Status: payment.StatusPaid},
		"letters of another case are another Pix's": {Answer: answer(strings.Replace(paidItem, "EXAMPLE", "example", 1)), Err: provider.ErrMismatch},
	} {
		r.Name, r.Ref = name, pixID
		rows = append(rows, r)
	}
	return rows
}

func TestEfiKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	body := []byte(paidBody)
	spelt := func(numbers ...string) (bodies [][]byte) {
		for _, n := range numbers {
			bodies = append(bodies, []byte(strings.Replace(paidBody, `"149.90"`, n, 1)))
		}
		return bodies
	}
	spellings := func(cents int64) []string {
		s := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		return []string{`"` + s + `"`, s, strings.TrimSuffix(strings.TrimSuffix(s, "0"), ".0"), `"` + s + `0"`}
	}
	query := func(q string) provider.Request { return provider.Request{Query: q, Body: body, Now: now} }
	refund := func(valor string) []byte {
		return []byte(`{"pix":[` + with(devolucoes(strings.Replace(devolucao("1", "x", "DEVOLVIDO"), `"x"`, valor, 1))) + `]}`)
	}
	providertest.Run(t, providertest.Spec{
		Factory: efi.New, Source: source(), Now: now, Sign: sign,
		CredentialQuery: "hmac", CaseMatters: true, Parts: true,
		Accepted: []providertest.Credential{
			{Name: "the address as Efí recommends it", Request: query("hmac=" + token + "&ignorar=/pix"), Label: "1"},
			{Name: "the probe at the registration, which has no suffix", Request: query("hmac=" + token + "&ignorar="), Label: "1"},
			{Name: "the previous token", Request: query("hmac=" + oldToken + "&ignorar=/pix"), Label: "2"},
			{Name: "the parameters the other way round", Request: query("ignorar=&hmac=" + token), Label: "1"},
			{Name: "a parameter beside it that is badly encoded", Request: query("x=%zz&hmac=" + token + "&ignorar=/pix"), Label: "1"},
		},
		Refused: []providertest.Credential{
			{Name: "the suffix glued to the token, though the address ends in &ignorar=", Request: query("hmac=" + token + "/pix"), Reason: provider.ReasonToken},
			{Name: "another suffix", Request: query("hmac=" + token + "/pax"), Reason: provider.ReasonToken},
			{Name: "no query", Request: query(""), Reason: provider.ReasonMissing},
			{Name: "the token under another name", Request: query("HMAC=" + token), Reason: provider.ReasonMissing},
			{Name: "the token behind a semicolon", Request: query("x=1;hmac=" + token), Reason: provider.ReasonMissing},
			{Name: "twice, once with an encoded name", Request: query("hmac=" + token + "&%68mac=" + token), Reason: provider.ReasonMalformed},
			{Name: "badly encoded", Request: query("hmac=" + token + "%2"), Reason: provider.ReasonMalformed},
			{Name: "in the path instead", Request: provider.Request{Path: token + "/pix", Body: body}, Reason: provider.ReasonMalformed},
			{Name: "something of its own in the path", Request: provider.Request{Path: "x", Query: "hmac=" + token, Body: body}, Reason: provider.ReasonMalformed},
			{Name: "in a header instead", Request: provider.Request{Header: http.Header{"Authorization": {"Bearer " + token}}, Body: body}, Reason: provider.ReasonMissing},
		},
		Body: body,
		EmptyData: [][]byte{
			[]byte(`{"pix":[]}`), []byte(`{"pix":[ ]}`), []byte(`{"pix":null}`), []byte(`{"pix":{}}`), []byte(`{}`), []byte(" { } \n"),
		},
		TestBodies: [][]byte{[]byte(`{"evento":"teste_webhook"}`), {}, []byte(" \r\n"), []byte("\xef\xbb\xbf"), []byte(`{"evento":"teste_webhook","pix":[]}`)},
		Keys:       keys(),
		Amounts:    func(cents int64) [][]byte { return spelt(spellings(cents)...) },
		OutOfRange: append(
			spelt(`"12345678901234567890"`, "12345678901234567890", `"-149.90"`, `"149.901"`, "1e400", "1e-3", `"0.00"`, "0", `""`, "null", `"149,90"`, `"1.149.90"`, `"R$ 149.90"`),
			refund(`"-1.00"`), refund(`"0.00"`), refund(`"12345678901234567890.00"`), refund(`"0.001"`), refund("null"),
			[]byte(`{"pix":[`+with(`"gnExtras":{"tarifa":"-0.01"}`)+`]}`), []byte(`{"pix":[`+with(`"gnExtras":{"tarifa":"0.005"}`)+`]}`),
		),
		Around: withToken, Lookups: lookups(), LookupRef: pixID,
		LookupAnswer: answer(with(devolucoes(devolucao("1", "49.90", "DEVOLVIDO", `"natureza":"ORIGINAL"`)), `"gnExtras":{"tarifa":"1.79"}`)),
		LookupAmounts: func(cents int64) (answers []http.HandlerFunc) {
			for _, s := range spellings(cents) {
				answers = append(answers, answer(strings.Replace(paidItem, `"149.90"`, s, 1)))
			}
			return answers
		},
		CheckLookup: func(r *http.Request) error {
			switch {
			case r.Method != http.MethodGet:
				return errors.New("method " + r.Method)
			case r.URL.Path != "/v2/pix/"+pixID || r.URL.RawQuery != "":
				return errors.New("address " + r.URL.String())
			case r.Header.Get("Authorization") != "Bearer the-token-of-the-tests":
				return errors.New("another Authorization")
			}
			return nil
		},
	})
}

func keys() []providertest.KeyPair {
	change := func(old, new string) []byte {
		if !strings.Contains(paidBody, old) {
			panic("the body does not have " + old)
		}
		return []byte(strings.Replace(paidBody, old, new, 1))
	}
	body := func(item string) []byte { return []byte(`{"pix":[` + item + `]}`) }
	paid, dev := []byte(paidBody), func(all ...string) []byte { return body(with(devolucoes(all...))) }
	a, b := devolucao("a", "49.90", "DEVOLVIDO"), devolucao("b", "100.00", "EM_PROCESSAMENTO")
	return []providertest.KeyPair{
		{Name: "a redelivery", A: paid, B: paid, Same: true},
		{Name: "a note that came with it (CASES B13)", A: paid, B: change("PED-1001", "PED-9"), Same: true},
		{Name: "a member more (CASES B13)", A: paid, B: body(with(`"invoice_number":"7"`)), Same: true},
		{Name: "an amount that is spelt otherwise", A: paid, B: change(`"149.90"`, "149.9"), Same: true},
		{Name: "an empty list of refunds", A: paid, B: dev(), Same: true},
		{Name: "the payer's name", A: paid, B: body(with(`"gnExtras":{"pagador":{"nome":"Exemplo"}}`)), Same: true},
		{Name: "another Pix", A: paid, B: change("EXAMPLE0001", "EXAMPLE0002")},
		{Name: "another charge", A: paid, B: change("00001\",\"chave", "00002\",\"chave")},
		{Name: "another amount", A: paid, B: change("149.90", "149.91")},
		{Name: "a fee that is known now", A: paid, B: body(with(`"gnExtras":{"tarifa":"1.79"}`))},
		{Name: "a refund under way", A: paid, B: dev(b)},
		{Name: "a refund that is done", A: dev(devolucao("b", "100.00", "DEVOLVIDO")), B: dev(b)},
		{Name: "a refund that failed", A: dev(devolucao("b", "100.00", "NAO_REALIZADO")), B: dev(b)},
		{Name: "a second refund", A: dev(a), B: dev(a, b)},
		{Name: "the refunds in another order", A: dev(a, b), B: dev(b, a), Same: true},
		{Name: "two refunds that swapped their states", A: dev(devolucao("a", "1.00", "DEVOLVIDO"), devolucao("b", "1.00", "NAO_REALIZADO")),
			B: dev(devolucao("b", "1.00", "DEVOLVIDO"), devolucao("a", "1.00", "NAO_REALIZADO"))},
		{Name: "a refund of a nature", A: dev(devolucao("a", "1.00", "DEVOLVIDO", `"natureza":"MED_FRAUDE"`)), B: dev(devolucao("a", "1.00", "DEVOLVIDO"))},
		{Name: "parts that would meet without their lengths (CASES B21)", A: dev(devolucao("a1", "1.00", "DEVOLVIDO")), B: dev(devolucao("a", "11.00", "DEVOLVIDO"))},
	}
}
