package mutants

// booking: money and the ledger.
var booking = []Mutant{
	{
		Name:    "float-money",
		Breaks:  "decimals become centavos by way of a float",
		Harm:    "19.99 is 19.98: a centavo is lost with every such payment",
		Changes: []Change{{"pkg/money/money.go", "return scaled(text, digits)", "f, err := strconv.ParseFloat(text, 64)\n\treturn int64(f * math.Pow10(digits)), err"}},
		Tests:   []Tests{in("pkg/money", "TestCase_D5_EveryCentUpToOneHundredIsExact")},
	},
	{
		Name:    "amount-rounded",
		Breaks:  "an amount that does not fit into centavos is cut",
		Harm:    "what nobody has stated is booked, and nobody is told",
		Changes: []Change{{"pkg/money/money.go", "if digits[len(digits)-1] != '0' {", "if digits[len(digits)-1] < '0' {"}},
		Tests:   []Tests{in("pkg/money", "TestParseDecimalExactness")},
	},
	{
		Name:    "reais-taken-for-centavos",
		Breaks:  "a decimal point in an amount of minor units is read over",
		Harm:    "25.00 is credited as 25 centavos",
		Changes: []Change{{"pkg/money/money.go", "strings.ContainsAny(text, \".eE\")", "strings.ContainsAny(text, \"eE\")"}},
		Tests:   []Tests{in("pkg/money", "TestMinorUnitsAreWrittenWithoutADecimalPoint")},
	},
	{
		Name:    "sums-wrap",
		Breaks:  "a sum beyond 64 bits turns negative",
		Harm:    "a refund of too much looks like one of too little",
		Changes: []Change{{"pkg/money/money.go", "if (b > 0 && a > math.MaxInt64-b) ||", "if (b < 0 && a > math.MaxInt64) ||"}},
		Tests:   []Tests{in("pkg/money", "TestAddRefusesToWrap")},
	},
	{
		Name:    "fee-leg-dropped",
		Breaks:  "a booking of a fee makes no entry",
		Harm:    "the owner is credited what the gateway has kept",
		Changes: []Change{{"pkg/ledger/ledger.go", "case payment.KindFee:\n", "case payment.KindFee:\n\t\t\tcontinue\n"}},
		Tests:   []Tests{in("pkg/ledger", "TestEachKindMovesMoneyInItsDirection", "TestTheEntriesOfAPaymentAddUpToIt"), in("pkg/processor", "TestAPaidEventBooksCaptureAndFeeOnce")},
	},
	{
		Name:    "refund-leg-dropped",
		Breaks:  "a booking of a refund makes no entry",
		Harm:    "the owner keeps money that the payer has back",
		Changes: []Change{{"pkg/ledger/ledger.go", "case payment.KindRefund, payment.KindChargeback:\n", "case payment.KindRefund, payment.KindChargeback:\n\t\t\tif b.Kind == payment.KindRefund {\n\t\t\t\tcontinue\n\t\t\t}\n"}},
		Tests:   []Tests{in("pkg/ledger", "TestEachKindMovesMoneyInItsDirection"), in("pkg/processor", "TestCase_B7_MixedRepeatsBookEachFactOnce")},
	},
	{
		Name:    "chargeback-credits",
		Breaks:  "a chargeback moves money in the direction of a capture",
		Harm:    "each dispute credits the owner a second time",
		Changes: []Change{{"pkg/ledger/ledger.go", "case payment.KindCapture, payment.KindRefundReversal,", "case payment.KindChargeback, payment.KindCapture, payment.KindRefundReversal,"}, {"pkg/ledger/ledger.go", "case payment.KindRefund, payment.KindChargeback:", "case payment.KindRefund:"}},
		Tests:   []Tests{in("pkg/ledger", "TestEachKindMovesMoneyInItsDirection")},
	},
	{
		Name:    "reference-without-the-account",
		Breaks:  "ledger references do not hold the gateway's account",
		Harm:    "a payment of one shop keeps the one of another with the same id from being credited",
		Changes: []Change{{"pkg/ledger/ledger.go", "return provider + \"/\" + account + \"/\" + id", "_ = account\n\treturn provider + \"/\" + id"}},
		Tests:   []Tests{in("pkg/ledger", "TestCase_B21_OneIDAtTwoGatewaysOrAccountsIsTwoReferences")},
	},
	{
		Name:    "ledger-not-unique",
		Breaks:  "the ledger has no unique key of references",
		Harm:    "the last barrier is gone: what two events claim is booked twice",
		Changes: []Change{{"schema/002_money.sql", "CONSTRAINT ledger_entries_once UNIQUE (reference_type, reference_id, kind)", "CONSTRAINT ledger_entries_once UNIQUE (id, reference_type, reference_id, kind)"}},
		Tests:   []Tests{in("pkg/processor", "TestAPoisonEventIsIsolatedAndDies")},
	},
	{
		Name:    "ledger-can-be-changed",
		Breaks:  "the database lets entries be deleted",
		Harm:    "a slip with psql, or a defect, rewrites what was booked, without a trace",
		Changes: []Change{{"schema/002_money.sql", "BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries", "BEFORE UPDATE OR TRUNCATE ON ledger_entries"}},
		Tests:   []Tests{in("pkg/processor", "TestTheLedgerRefusesToBeChanged")},
	},
}
