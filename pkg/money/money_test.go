package money

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

func TestParseDecimalExactness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, currency string
		want           int64
		err            error
	}{
		{"149.90", "BRL", 14990, nil},
		{"8.2", "BRL", 820, nil},
		{"8.20", "BRL", 820, nil},
		{"19.99", "BRL", 1999, nil},
		{"100", "BRL", 10000, nil},
		{"100.0", "BRL", 10000, nil},
		{"1e2", "BRL", 10000, nil},
		{"1.4990E+2", "BRL", 14990, nil},
		{"1499000e-4", "BRL", 14990, nil},
		{"0", "BRL", 0, nil},
		{"0.000", "BRL", 0, nil},
		{"0e999999", "BRL", 0, nil},
		{"-3.50", "BRL", -350, nil},
		{"10", "JPY", 10, nil},
		{"1.234", "KWD", 1234, nil},
		{"92233720368547758.07", "BRL", 9223372036854775807, nil},
		{"92233720368547758.08", "BRL", 0, ErrRange},
		{"12345678901234567890", "BRL", 0, ErrRange},
		{"1e40", "BRL", 0, ErrRange},
		{"1e999999999999", "BRL", 0, ErrRange},
		{"1e99999999999999999999999", "BRL", 0, ErrRange},
		{"0.001", "BRL", 0, ErrInexact},
		{"1e-3", "BRL", 0, ErrInexact},
		{"1e-300", "BRL", 0, ErrInexact},
		{"10.5", "JPY", 0, ErrInexact},
		{"", "BRL", 0, ErrSyntax},
		{".5", "BRL", 0, ErrSyntax},
		{"5.", "BRL", 0, ErrSyntax},
		{"+5", "BRL", 0, ErrSyntax},
		{"--5", "BRL", 0, ErrSyntax},
		{"1e+-2", "BRL", 0, ErrSyntax},
		{"0x10", "BRL", 0, ErrSyntax},
		{"NaN", "BRL", 0, ErrSyntax},
		{"1,50", "BRL", 0, ErrSyntax},
		{"1", "XXQ", 0, ErrCurrency},
	} {
		got, err := ParseDecimal(c.text, c.currency)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("ParseDecimal(%q, %s) = %d, %v; want %d, %v", c.text, c.currency, got, err, c.want, c.err)
		}
	}
}

func TestCase_D5_EveryCentUpToOneHundredIsExact(t *testing.T) {
	t.Parallel()
	for cents := int64(1); cents <= 10000; cents++ {
		texts := []string{fmt.Sprintf("%d.%02d", cents/100, cents%100)}
		if cents%10 == 0 {
			texts = append(texts, fmt.Sprintf("%d.%d", cents/100, cents%100/10))
		}
		if cents%100 == 0 {
			texts = append(texts, fmt.Sprintf("%d", cents/100))
		}
		for _, text := range texts {
			if got, err := ParseDecimal(text, "BRL"); err != nil || got != cents {
				t.Fatalf("ParseDecimal(%q) = %d, %v; want %d", text, got, err, cents)
			}
		}
	}
}

func TestAmountString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   Amount
		want string
	}{
		{Amount{14990, "BRL"}, "BRL 149.90"},
		{Amount{5, "BRL"}, "BRL 0.05"},
		{Amount{-5, "BRL"}, "BRL -0.05"},
		{Amount{10, "JPY"}, "JPY 10"},
		{Amount{-9223372036854775808, "BRL"}, "BRL -92233720368547758.08"},
	} {
		if got := c.in.String(); got != c.want {
			t.Errorf("%#v = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestAddRefusesToWrap(t *testing.T) {
	t.Parallel()
	if _, err := Add(9223372036854775807, 1); !errors.Is(err, ErrRange) {
		t.Errorf("Add beyond the range: %v", err)
	}
	if got, err := Add(-5, 3); got != -2 || err != nil {
		t.Errorf("Add(-5, 3) = %d, %v", got, err)
	}
}

func TestMinorUnitsAreWrittenWithoutADecimalPoint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"2500": 2500, "0": 0, "-1": -1, "9223372036854775807": math.MaxInt64} {
		if got, err := ParseMinor(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"25.00", "25.0", "25.", "2.5e1", "1e2", "25.5"} {
		if got, err := ParseMinor(text); err == nil {
			t.Errorf("%s is read as %d of the minor unit", text, got)
		}
	}
}
