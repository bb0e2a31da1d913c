package mutants

// receiving: from the socket to the answer.
var receiving = []Mutant{
	{
		Name:   "answer-before-commit",
		Breaks: "the answer does not wait for the commit",
		Harm:   "a commit that fails after the 200 loses the event: the gateway never sends it again",
		Changes: []Change{{"pkg/ingest/handler.go",
			"case <-u.done:\n\tcase <-deadline.C:",
			"case <-u.done:\n\tdefault:\n\tcase <-deadline.C:"}},
		Tests: []Tests{in("pkg/ingest", "TestALateCommitIsAnsweredInTimeWithAnError", "TestAPanicInTheStoreIsAnErrorForItsBatchOnly")},
	},
	{
		Name:    "failed-commit-answered-with-success",
		Breaks:  "the error of the store is not looked at",
		Harm:    "an event that PostgreSQL refused is promised and lost",
		Changes: []Change{{"pkg/ingest/handler.go", "if u.err != nil {", "if false {"}},
		Tests:   []Tests{in("pkg/ingest", "TestAPanicInTheStoreIsAnErrorForItsBatchOnly", "TestARowThatCannotBeKeptAtAllIsNotPromised")},
	},
	{
		Name:    "duplicate-answered-with-an-error",
		Breaks:  "an event that is known already counts as not stored",
		Harm:    "gateways stop their queue after some failures in a row: no payment is heard of any more",
		Changes: []Change{{"pkg/ingest/committer.go", "if stored[i].ID == 0 {", "if !stored[i].New {"}},
		Tests:   []Tests{in("pkg/ingest", "TestOnlyWhatIsNewWorkIsPublishedAfterItsCommit", "TestCase_B1_FiftyCopiesAtOnceOverFourPodsAreOneEvent")},
	},
	{
		Name:   "publish-before-commit",
		Breaks: "the bell rings before the event is stored",
		Harm:   "a processor finds no row and acks the message: the event waits for the sweeper, or rings for nothing",
		Changes: []Change{{"pkg/ingest/committer.go",
			"\tstored := make(",
			"\tfor i := range arrivals {\n\t\tc.offer(event.Notice{Provider: arrivals[i].Provider, Account: arrivals[i].Account, PaymentRef: arrivals[i].PaymentRef})\n\t}\n\tstored := make("}},
		Tests: []Tests{in("pkg/ingest", "TestOnlyWhatIsNewWorkIsPublishedAfterItsCommit")},
	},
	{
		Name:   "answer-waits-for-the-publisher",
		Breaks: "requests are answered after their events were offered to the publisher",
		Harm:   "a broker that hangs makes every webhook time out, and gateways stop their queues",
		Changes: []Change{
			{"pkg/ingest/committer.go", "u.err = outcome(u.stored, err)\n\t\tclose(u.done)", "u.err = outcome(u.stored, err)\n\t\tdefer close(u.done)"},
		},
		Tests: []Tests{in("pkg/ingest", "TestTheAnswerDoesNotWaitForThePublisher")},
	},
	{
		Name:    "publisher-blocks-when-it-is-full",
		Breaks:  "an offer waits for room",
		Harm:    "a broker that is away stops the flushers, and with them every webhook",
		Changes: []Change{{"pkg/queue/publisher.go", "p.overflowed.Add(1)\n", "time.Sleep(2 * time.Millisecond)\n\tp.overflowed.Add(1)\n"}},
		Tests:   []Tests{in("pkg/queue", "TestOfferNeverBlocksAndCountsWhatDoesNotFit")},
	},
	{
		Name:    "bad-row-fails-its-batch",
		Breaks:  "a batch with a row that the database refuses is not split",
		Harm:    "one strange body keeps all events that came with it from being stored, each time anew",
		Changes: []Change{{"pkg/ingest/committer.go", "if half := len(arrivals) / 2; half > 0 {", "if half := len(arrivals) / 2; half < 0 {"}},
		Tests:   []Tests{in("pkg/ingest", "TestCase_F3_OneDuplicateAndOneBadRowCostTheOthersNothing")},
	},
	{
		Name:    "test-event-in-production-is-processed",
		Breaks:  "what a gateway marks as a test is worked off like a real event",
		Harm:    "money is credited that nobody has paid",
		Changes: []Change{{"pkg/ingest/arrivals.go", "case provider.Ignore:\n\t\ta.Settle = event.StatusIgnored", "case provider.Ignore:"}},
		Tests:   []Tests{in("pkg/ingest", "TestTestEventsInProductionAreIgnored")},
	},
	{
		Name:    "stripe-test-mode-in-production",
		Breaks:  "Stripe's livemode is not compared with the source's",
		Harm:    "an event of the test mode credits real money",
		Changes: []Change{{"pkg/provider/stripe/parse.go", "case !*e.Livemode && g.src.Production:", "case !*e.Livemode && g == nil:"}},
		Tests:   []Tests{in("pkg/provider/stripe", "TestModesDoNotMix", "TestStripeConformsToTheContractOfAllGateways")},
	},
	{
		Name:    "pagpolar-playground-in-production",
		Breaks:  "PagPolar's test mark does not count in production",
		Harm:    "a sale of the playground credits real money",
		Changes: []Change{{"pkg/provider/pagpolar/parse.go", "case m.Test && p.src.Production:", "case m.Test && !p.src.Production:"}},
		Tests:   []Tests{in("pkg/provider/pagpolar", "TestCase_D9_PlaygroundEventsAreIgnoredInProductionAlone")},
	},
	{
		Name:   "empty-body-answered-with-success",
		Breaks: "a request whose body was lost on the way is taken",
		Harm:   "the event was never seen and never comes again",
		Changes: []Change{{"pkg/ingest/handler.go",
			"if len(sent) == 0 && !src", "if len(sent) < 0 && !src"}},
		Tests: []Tests{in("pkg/ingest", "TestCase_D11_AnswersAreExactlyThoseOfTheContract")},
	},
}
