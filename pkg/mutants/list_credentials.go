package mutants

// credentials: who may move money.
var credentials = []Mutant{
	{
		Name:    "signature-not-on-raw-bytes",
		Breaks:  "the signature is checked on a body that was written anew",
		Harm:    "authentic events are refused because of a space, and the gateway gives up",
		Changes: []Change{{"pkg/ingest/handler.go", "Query: r.URL.RawQuery, Body: body,", "Query: r.URL.RawQuery, Body: []byte(strings.Join(strings.Fields(string(body)), \" \")),"}},
		Tests:   []Tests{in("pkg/ingest", "TestCase_A1_WhatIsCheckedAndKeptAreTheBytesOfTheSocket")},
	},
	{
		Name:    "stripe-digest-of-a-trimmed-body",
		Breaks:  "Stripe's digest leaves outer white space out",
		Harm:    "bytes that were not signed are accepted",
		Changes: []Change{{"pkg/provider/stripe/verify.go", "digest(mac, s.stamp, r.Body, buf[:0])", "digest(mac, s.stamp, []byte(strings.TrimSpace(string(r.Body))), buf[:0])"}},
		Tests:   []Tests{in("pkg/provider/stripe", "TestStripeConformsToTheContractOfAllGateways")},
	},
	{
		Name:    "stripe-forged-signature-accepted",
		Breaks:  "a digest that matches no secret passes",
		Harm:    "anybody credits himself",
		Changes: []Change{{"pkg/provider/stripe/verify.go", "case matched < 0:", "case matched < -1:"}},
		Tests:   []Tests{in("pkg/provider/stripe", "TestStripeConformsToTheContractOfAllGateways")},
	},
	{
		Name:    "stripe-first-signature-only",
		Breaks:  "only the first of several v1 signatures is compared",
		Harm:    "while a secret is rolled every event is refused",
		Changes: []Change{{"pkg/provider/stripe/verify.go", "for j := range s.n {", "for j := range min(s.n, 1) {"}},
		Tests:   []Tests{in("pkg/provider/stripe", "TestCase_A19_AnyOfSeveralSignaturesWillDo")},
	},
	{
		Name:    "stripe-first-secret-only",
		Breaks:  "only the first of the active secrets is tried",
		Harm:    "while a secret is rolled events are refused",
		Changes: []Change{{"pkg/provider/stripe/verify.go", "for i := range g.macs {", "for i := range g.macs[:1] {"}},
		Tests:   []Tests{in("pkg/provider/stripe", "TestStripeConformsToTheContractOfAllGateways")},
	},
	{
		Name:    "first-token-only",
		Breaks:  "of several shared tokens only the first is good",
		Harm:    "while a token is rolled events are refused",
		Changes: []Change{{"pkg/provider/token.go", "for i := len(t) - 1; i >= 0; i-- {", "for i := 0; i >= 0; i-- {"}},
		Tests:   []Tests{in("pkg/provider/asaas", "TestAsaasKeepsTheContractOfProviders")},
	},
	{
		Name:    "empty-secret-accepted",
		Breaks:  "a secret of no characters is good enough to start with",
		Harm:    "anybody can sign with it, and credit himself",
		Changes: []Change{{"pkg/provider/source.go", "|| len(secret) < minLen {", "|| len(secret) < 0 {"}},
		Tests:   []Tests{in("pkg/provider", "TestSecretsThatLetEverybodyInAreRefused")},
	},
	{
		Name:    "no-secret-accepted",
		Breaks:  "a source starts without any secret",
		Harm:    "with nothing to compare, a later change lets everybody in",
		Changes: []Change{{"pkg/provider/source.go", "if len(s.WebhookSecrets) == 0 {", "if len(s.WebhookSecrets) < 0 {"}},
		Tests:   []Tests{in("pkg/provider", "TestSecretsThatLetEverybodyInAreRefused")},
	},
	{
		Name:    "stripe-old-signature-accepted",
		Breaks:  "the age of a signature is not looked at",
		Harm:    "who once saw a signed request may send it years later",
		Changes: []Change{{"pkg/provider/stripe/verify.go", "case age > g.tolerance:", "case age > 1<<40:"}},
		Tests:   []Tests{in("pkg/provider/stripe", "TestCase_A17_AWrongClockIsToldFromAWrongDigest")},
	},
	{
		Name:    "unknown-account-is-the-default-one",
		Breaks:  "an address of an account that is not configured is taken for the plain one",
		Harm:    "events of another shop are booked on this one",
		Changes: []Change{{"pkg/ingest/handler.go", "ok = p.Traits().OwnsPath\n", "ok, rest = true, \"\"\n"}},
		Tests:   []Tests{in("pkg/ingest", "TestWhatFollowsTheAccountBelongsToAGatewayThatOwnsIt", "TestCase_A21_TheSecretOfOneAccountDoesNotOpenAnother")},
	},
}
