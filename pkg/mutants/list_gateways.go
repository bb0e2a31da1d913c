package mutants

// another is the answer of a gateway's API about another payment than the one
// that was asked for.
func another(gateway, pkg, file, old, replacement, test string) Mutant {
	return Mutant{
		Name:    gateway + "-answer-about-another-payment",
		Breaks:  "the id in the answer of " + gateway + " is not compared with the one that was asked for",
		Harm:    "one payment is credited with what another one has received",
		Changes: []Change{{pkg + "/" + file, old, replacement}},
		Tests:   []Tests{in(pkg, test)},
	}
}

// gateways: what only one of them has.
var gateways = []Mutant{
	another("stripe", "pkg/provider/stripe", "lookup.go", "case string(b.ID) != a.ref:", "case string(b.ID) == \"\":", "TestAnAnswerAboutAnotherPaymentIsAMismatch"),
	another("asaas", "pkg/provider/asaas", "lookup.go", "if string(c.ID) != ref {", "if c.ID = provider.Text(ref); ref == \"\" {", "TestAsaasKeepsTheContractOfProviders"),
	another("pagpolar", "pkg/provider/pagpolar", "lookup.go", "if string(id) != ref {", "if len(id) < 0 {", "TestPagPolarKeepsTheContractOfProviders"),
	another("pagarme", "pkg/provider/pagarme", "lookup.go", "if string(c.ID) != ref {", "if c.ID = provider.Text(ref); ref == \"\" {", "TestPagarmeKeepsTheContractOfProviders"),
	another("mercadopago", "pkg/provider/mercadopago", "lookup.go", "if string(a.ID) != ref {\n\t\treturn payment.Claim{}, fmt.Errorf(\"%w: the payment's", "if a.ID = provider.Text(ref); ref == \"\" {\n\t\treturn payment.Claim{}, fmt.Errorf(\"%w: the payment's", "TestMercadoPagoKeepsTheContractOfProviders"),
	another("zoop", "pkg/provider/zoop", "lookup.go", "case string(t.ID) != ref:", "case string(t.ID) == \"\":", "TestZoopKeepsTheContractOfProviders"),
	another("standardwebhooks", "pkg/provider/standardwebhooks", "lookup.go", "if string(id) != ref {", "if len(id) < 0 {", "TestStandardWebhooks"),
	another("pagbank", "pkg/provider/pagbank", "lookup.go", "if string(c.ID) != ref {", "if c.ID = provider.Text(ref); ref == \"\" {", "TestPagBankKeepsTheContractOfProviders"),
	another("efi", "pkg/provider/efi", "lookup.go", "if string(it.EndToEndID) != ref {", "if it.EndToEndID = provider.Text(ref); ref == \"\" {", "TestEfiKeepsTheContractOfProviders"),
	another("iugu", "pkg/provider/iugu", "lookup.go", "case string(inv.ID) != ref:", "case string(inv.ID) == \"\":", "TestIuguKeepsTheContractOfProviders"),
	{
		Name:    "standardwebhooks-last-signature-only",
		Breaks:  "of several signatures in the list only the last is compared",
		Harm:    "while a secret is rolled events are refused",
		Changes: []Change{{"pkg/provider/standardwebhooks/verify.go", "s.macs[s.nMacs] = value\n\t\t\ts.nMacs++", "s.macs[0] = value\n\t\t\ts.nMacs = 1"}},
		Tests:   []Tests{in("pkg/provider/standardwebhooks", "TestCase_A19_StandardWebhooksTryEverySignatureOfTheList")},
	},
	{
		Name:    "mercadopago-forged-signature-accepted",
		Breaks:  "a digest that matches no secret passes",
		Harm:    "anybody makes us ask for what he likes, as often as he likes",
		Changes: []Change{{"pkg/provider/mercadopago/verify.go", "if matched == 0 {", "if matched < 0 {"}},
		Tests:   []Tests{in("pkg/provider/mercadopago", "TestMercadoPagoKeepsTheContractOfProviders")},
	},
	{
		Name:    "mercadopago-payment-of-another-seller",
		Breaks:  "the seller in the answer is not compared with the one of the settings",
		Harm:    "what another seller has received is credited here",
		Changes: []Change{{"pkg/provider/mercadopago/lookup.go", "string(a.CollectorID) != p.user {", "string(a.CollectorID) == \"-\" {"}},
		Tests:   []Tests{in("pkg/provider/mercadopago", "TestMercadoPagoKeepsTheContractOfProviders")},
	},
	{
		Name:    "pagbank-signature-without-the-body",
		Breaks:  "the digest is made of the token alone",
		Harm:    "who has seen one request signs any other with it",
		Changes: []Change{{"pkg/provider/pagbank/verify.go", "h.Write(body)\n", "h.Write(body[:0])\n"}},
		Tests:   []Tests{in("pkg/provider/pagbank", "TestPagBankKeepsTheContractOfProviders", "TestCase_A1_PagBankRefusesABodyThatWasWrittenAnew")},
	},
	{
		Name:    "pagbank-unsigned-body-in-production",
		Breaks:  "the secret address stands for a signature that is there and wrong",
		Harm:    "who knows the address moves money with any body",
		Changes: []Change{{"pkg/provider/pagbank/verify.go", "case reason != provider.ReasonMissing:\n\t\tif reason", "case reason != provider.ReasonMissing && len(p.sandbox) == 0:\n\t\tif reason"}},
		Tests:   []Tests{in("pkg/provider/pagbank", "TestOnlyTheSandboxTakesAnAddressForASignature")},
	},
	{
		Name:    "zoop-authorization-not-demanded",
		Breaks:  "a wrong Authorization header passes beside the secret address",
		Harm:    "who has read the address in a log makes us ask for what he likes",
		Changes: []Change{{"pkg/provider/zoop/verify.go", "reason == provider.ReasonNone {\n\t\treason = second", "reason == provider.ReasonNone {\n\t\t_ = second"}},
		Tests:   []Tests{in("pkg/provider/zoop", "TestAnAuthorizationHeaderMayBeDemandedAsWell")},
	},
	{
		Name:    "efi-certificate-not-demanded",
		Breaks:  "a request without a verified client certificate passes where mTLS is set",
		Harm:    "who knows the address makes us ask for what he likes",
		Changes: []Change{{"pkg/provider/efi/verify.go", "if p.mtls && !r.ClientVerified {", "if p.mtls && r.Peer.IsMulticast() {"}},
		Tests:   []Tests{in("pkg/provider/efi", "TestAClientCertificateIsRequiredWithMTLS")},
	},
	{
		Name:    "efi-sent-pix-credited",
		Breaks:  "a Pix that we sent is taken for one that was paid to us",
		Harm:    "what was paid out is credited",
		Changes: []Change{{"pkg/provider/efi/lookup.go", "if it.outgoing(x) {", "if it.outgoing(x) && ref == \"\" {"}},
		Tests:   []Tests{in("pkg/provider/efi", "TestPixThatWeSentAreNeverClaims", "TestEfiKeepsTheContractOfProviders")},
	},
	{
		Name:    "iugu-refund-of-one-centavo",
		Breaks:  "the hint of a refund is booked as one centavo where bodies are trusted",
		Harm:    "the owner is debited a centavo instead of what went back",
		Changes: []Change{{"pkg/provider/iugu/facts.go", "case p.src.Lookup == provider.LookupAlways:", "case p.src.Lookup != provider.LookupInDoubt:"}},
		Tests:   []Tests{in("pkg/provider/iugu", "TestARefundIsNeverOneCentavo")},
	},
	{
		Name:    "pagarme-event-of-another-account",
		Breaks:  "the account in an event is not compared with the one of the settings",
		Harm:    "what another shop has received is credited here",
		Changes: []Change{{"pkg/provider/pagarme/parse.go", "string(env.Account.ID) != p.account:", "string(env.Account.ID) == \"-\":"}},
		Tests:   []Tests{in("pkg/provider/pagarme", "TestAnEventOfAnotherAccountIsQuarantined")},
	},
}
