package provider

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeFormKeepsValuesAndRefusesWhatIsAmbiguous(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want Form
		ok   bool
	}{
		{"id=1&transaction%5Bmetadata%5D=a+b%20c&x=", Form{"id": "1", "transaction[metadata]": "a b c", "x": ""}, true},
		{"\xef\xbb\xbf\xef\xbb\xbfevent=a", Form{"event": "a"}, true},
		{"a=1&&b", Form{"a": "1", "b": ""}, true},
		{"a=%C3%A9%ff", Form{"a": "é\ufffd"}, true},
		{"a=b=c", Form{"a": "b=c"}, true},
		{"", Form{}, true},
		{"a=1&a=2", nil, false},
		{"a=1&%61=2", nil, false},
		{"a=%zz", nil, false},
		{"%zz=a", nil, false},
		{strings.Repeat("a&", maxFields+1), nil, false},
	} {
		got, err := DecodeForm([]byte(c.in))
		if c.ok != (err == nil) || c.ok && !reflect.DeepEqual(got, c.want) || !c.ok && !errors.Is(err, ErrForm) {
			t.Errorf("%.60q: %v, %v", c.in, got, err)
		}
	}
}

func TestUnderOpensOneGroupOfBrackets(t *testing.T) {
	t.Parallel()
	got := Form{"data[id]": "1", "data[customer][name]": "x", "data": "y", "datab[id]": "2", "data[": "3", "data[]": "4", "data[i]d": "5"}.Under("data")
	if want := (Form{"id": "1", "customer[name]": "x", "": "4"}); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
