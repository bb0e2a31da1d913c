package provider

import (
	"errors"
	"strings"
	"testing"
)

func TestDecodeIsStrictAboutStructureAndLenientAboutTexts(t *testing.T) {
	t.Parallel()
	type body struct {
		ID     Text   `json:"id"`
		Amount Number `json:"amount"`
	}
	for _, c := range []struct {
		in   string
		want body
		ok   bool
	}{
		{`{"id":"a","amount":1.50}`, body{"a", "1.50"}, true},
		{`{"id":9007199254740993,"amount":"8.20"}`, body{"9007199254740993", "8.20"}, true},
		{`{"id":null,"amount":null}`, body{}, true},
		{`{}`, body{}, true},
		{"\xef\xbb\xbf\xef\xbb\xbf" + `{"id":"a"}`, body{ID: "a"}, true},
		{`{"ID":"x","id":"a","Amount":7}`, body{ID: "a"}, true},
		{`{"id":"a","name":"\ud83d \u0000 ` + "\xff" + `"}`, body{ID: "a"}, true},
		{`{"id":"\ud83dx"}`, body{ID: "\ufffdx"}, true},
		{`{"amount":12345678901234567890123456789012345678901234567890}`, body{Amount: "12345678901234567890123456789012345678901234567890"}, true},
		{`{"id":"a","id":"b"}`, body{}, false},
		{`{"x":{"y":1,"y":2}}`, body{}, false},
		{`{"id":{}}`, body{}, false},
		{`{"id":true}`, body{}, false},
		{`{"amount":[]}`, body{}, false},
		{`[]`, body{}, false},
		{`{"id":"a"}{"id":"b"}`, body{}, false},
		{`{"id":"a"`, body{}, false},
		{``, body{}, false},
	} {
		var got body
		err := Decode([]byte(c.in), &got)
		switch {
		case c.ok && (err != nil || got != c.want):
			t.Errorf("%s: %+v, %v", c.in, got, err)
		case !c.ok && !errors.Is(err, ErrJSON):
			t.Errorf("%s: %+v, %v; want ErrJSON", c.in, got, err)
		}
	}
}

func TestReasonsOfDecodeNeverQuoteTheBody(t *testing.T) {
	t.Parallel()
	var v struct {
		Payer map[string]Text `json:"payer"`
		ID    Number          `json:"id"`
	}
	for _, in := range []string{
		`{"id":"SECRET NAME \ud83d"}`, `{"id":{"SECRET":1}}`, `SECRET`, `{"SECRET":1,"SECRET":2}`, `{"id":[` + strings.Repeat("1,", 100) + `"SECRET"]}`,
	} {
		if err := Decode([]byte(in), &v); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestTextsThatCannotNameAnythingAreNotClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[Text]bool{
		"": true, "pay_1": true, "evt_a&b=c": true, "São João": true, "a b": true,
		"a\x00b": false, "a\nb": false, "\xff": false, "\ufffd": false, Text(strings.Repeat("x", 256)): false, Text(strings.Repeat("x", 255)): true,
	} {
		if text.Clean() != want {
			t.Errorf("%q is clean: %v", text, !want)
		}
	}
}
