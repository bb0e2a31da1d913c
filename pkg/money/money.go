// Package money holds exact amounts: integer minor units beside an ISO 4217
// currency. Nothing here, and nothing that uses it, passes through a float.
//
// An Amount is what the ledger stores. A decimal text of a gateway ("149.90")
// becomes an Amount only when it fits exactly; what would need rounding, or
// does not fit into a bigint, is refused with ErrInexact or ErrRange.
package money

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/bojanz/currency"
)

// The reasons why a text is not an amount.
var (
	ErrSyntax   = errors.New("not a decimal number")
	ErrInexact  = errors.New("does not fit exactly into the currency's minor unit")
	ErrRange    = errors.New("range: does not fit into 64 bits of minor units")
	ErrCurrency = errors.New("unknown ISO 4217 currency")
)

// Amount is a count of minor units (centavos for BRL) in one currency.
// The zero Amount has no currency and means "no amount".
type Amount struct {
	Minor    int64
	Currency string // ISO 4217, upper case
}

// Currency returns the ISO 4217 code in upper case, or ErrCurrency.
func Currency(code string) (string, error) {
	up := strings.ToUpper(code)
	if len(up) != 3 || !currency.IsValid(up) {
		return "", fmt.Errorf("%w: %.12q", ErrCurrency, code)
	}
	return up, nil
}

// Digits returns how many decimal digits the minor unit of a currency has
// (2 for BRL, 0 for JPY, 3 for KWD).
func Digits(code string) (int, error) {
	n, ok := currency.GetDigits(code)
	if !ok {
		return 0, fmt.Errorf("%w: %.12q", ErrCurrency, code)
	}
	return int(n), nil
}

// ParseMinor reads a JSON number that already counts minor units. A decimal
// point or an exponent is ErrInexact, even before zeros: whoever writes
// "25.00" means major units, and reading it as 25 of the minor ones would be
// wrong by a hundred without anybody being told.
func ParseMinor(text string) (int64, error) {
	v, err := scaled(text, 0)
	if err == nil && strings.ContainsAny(text, ".eE") {
		return 0, ErrInexact
	}
	return v, err
}

// ParseDecimal reads a JSON number in major units ("149.90", "8.2", "1e2")
// and returns it in minor units of the currency.
func ParseDecimal(text, code string) (int64, error) {
	digits, err := Digits(code)
	if err != nil {
		return 0, err
	}
	return scaled(text, digits)
}

// maxTextLen bounds the work: no amount that fits 64 bits is longer, unless
// it is written to waste our time.
const maxTextLen = 64

// scaled returns text * 10^shift as an integer, exactly.
func scaled(text string, shift int) (int64, error) {
	if text == "" || len(text) > maxTextLen {
		if len(text) > maxTextLen {
			return 0, ErrRange
		}
		return 0, ErrSyntax
	}
	neg := false
	s := text
	if s[0] == '-' {
		neg, s = true, s[1:]
	}
	mantissa, expText, hasExp := cutAny(s, "eE")
	exp := 0
	if hasExp {
		sign, abs := 1, expText
		switch {
		case strings.HasPrefix(abs, "+"):
			abs = abs[1:]
		case strings.HasPrefix(abs, "-"):
			sign, abs = -1, abs[1:]
		}
		if !isDigits(abs) {
			return 0, ErrSyntax
		}
		n, err := strconv.Atoi(abs)
		if err != nil || n > maxTextLen {
			n = maxTextLen + 1 // out of any range; the sign says which way
		}
		exp = sign * n
	}
	whole, frac, hasDot := strings.Cut(mantissa, ".")
	if !isDigits(whole) || hasDot && !isDigits(frac) {
		return 0, ErrSyntax
	}
	digits := strings.TrimLeft(whole+frac, "0")
	if digits == "" {
		return 0, nil
	}
	if exp > maxTextLen || exp < -maxTextLen {
		if exp > 0 {
			return 0, ErrRange
		}
		return 0, ErrInexact
	}
	power := exp - len(frac) + shift
	for power < 0 {
		if digits[len(digits)-1] != '0' {
			return 0, ErrInexact
		}
		digits = digits[:len(digits)-1]
		power++
		if digits == "" {
			return 0, ErrInexact
		}
	}
	if len(digits)+power > 19 {
		return 0, ErrRange
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", power), 10, 64)
	if err != nil {
		return 0, ErrRange
	}
	if neg {
		return -n, nil
	}
	return n, nil
}

func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func isDigits(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// Add returns a+b, or ErrRange instead of wrapping round.
func Add(a, b int64) (int64, error) {
	if (b > 0 && a > math.MaxInt64-b) || (b < 0 && a < math.MinInt64-b) {
		return 0, ErrRange
	}
	return a + b, nil
}

// String gives the amount in major units with its currency, for people:
// "BRL 149.90".
func (a Amount) String() string {
	if a.Currency == "" {
		return strconv.FormatInt(a.Minor, 10)
	}
	digits, err := Digits(a.Currency)
	if err != nil || digits == 0 {
		return fmt.Sprintf("%s %d", a.Currency, a.Minor)
	}
	sign, u := "", uint64(a.Minor)
	if a.Minor < 0 {
		sign, u = "-", uint64(-(a.Minor+1))+1
	}
	text := fmt.Sprintf("%0*d", digits+1, u)
	return fmt.Sprintf("%s %s%s.%s", a.Currency, sign, text[:len(text)-digits], text[len(text)-digits:])
}
