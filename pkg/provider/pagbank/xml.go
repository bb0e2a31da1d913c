package pagbank

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding/charmap"

	"github.com/umavez/umavez/pkg/provider"
)

// transaction is what is read of an answer of the old API.
type transaction struct {
	code, reference, status, lastEvent provider.Text
	gross, kept, net                   provider.Text // decimal reais
}

// transactionXML has lists, since an element that comes twice leaves open
// which of the two is meant.
type transactionXML struct {
	XMLName   xml.Name `xml:"transaction"`
	Code      []string `xml:"code"`
	Reference []string `xml:"reference"`
	Status    []string `xml:"status"`
	LastEvent []string `xml:"lastEventDate"`
	Gross     []string `xml:"grossAmount"`
	Fee       []string `xml:"feeAmount"`
	Net       []string `xml:"netAmount"`
}

// readTransaction reads the XML strictly: one element, no entities but the
// five of XML, ISO-8859-1 or UTF-8. Errors quote nothing of it.
func readTransaction(raw []byte) (t transaction, err error) {
	d := xml.NewDecoder(bytes.NewReader(provider.SkipBOM(raw)))
	d.CharsetReader = charset
	var x transactionXML
	if err := d.Decode(&x); err != nil {
		if errors.Is(err, errCharset) {
			return t, errCharset
		}
		var syntax *xml.SyntaxError
		if errors.As(err, &syntax) {
			return t, fmt.Errorf("not valid XML: syntax in line %d", syntax.Line)
		}
		return t, errors.New("not the XML of one transaction")
	}
	if err := nothingAfter(d); err != nil {
		return t, err
	}
	for _, field := range []struct {
		name   string
		values []string
		into   *provider.Text
	}{
		{"code", x.Code, &t.code}, {"reference", x.Reference, &t.reference}, {"status", x.Status, &t.status},
		{"lastEventDate", x.LastEvent, &t.lastEvent}, {"grossAmount", x.Gross, &t.gross},
		{"feeAmount", x.Fee, &t.kept}, {"netAmount", x.Net, &t.net},
	} {
		switch len(field.values) {
		case 0:
		case 1:
			*field.into = provider.Text(strings.TrimSpace(field.values[0]))
		default:
			return t, fmt.Errorf("transaction.%s comes twice", field.name)
		}
	}
	return t, nil
}

// nothingAfter refuses a second document behind the first.
func nothingAfter(d *xml.Decoder) error {
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New("not valid XML after its element")
		}
		switch v := token.(type) {
		case xml.CharData:
			if len(bytes.TrimSpace(v)) > 0 {
				return errors.New("text after the XML")
			}
		case xml.Comment, xml.ProcInst:
		default:
			return errors.New("a second element after the transaction")
		}
	}
}

var errCharset = errors.New("the XML is in a character set other than ISO-8859-1 and UTF-8")

func charset(label string, input io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "iso-8859-1", "latin1", "iso8859-1":
		return charmap.ISO8859_1.NewDecoder().Reader(input), nil
	case "utf-8", "utf8", "us-ascii":
		return input, nil
	}
	return nil, errCharset
}
