package mutants

// queueing: the bell.
var queueing = []Mutant{
	{
		Name:    "same-message-id-for-a-republication",
		Breaks:  "an event is published with its id as Nats-Msg-Id",
		Harm:    "within the duplicate window the sweeper's repair is swallowed: nothing is queued",
		Changes: []Change{{"pkg/queue/publish.go", "&nats.Msg{Subject: Subject(n)}", "&nats.Msg{Subject: Subject(n), Header: nats.Header{jetstream.MsgIDHeader: {fmt.Sprint(n.ID)}}}"}},
		Tests:   []Tests{in("pkg/queue", "TestCase_E1_AnEventFailedWithinTheDuplicateWindowIsPublishedAgain")},
	},
	{
		Name:    "refused-publish-called-stored",
		Breaks:  "what the stream refuses counts as published",
		Harm:    "a full stream loses events until the sweeper's late turn",
		Changes: []Change{{"pkg/queue/publish.go", "case err == nil:\n\t\treturn Published", "case err == nil || !isWaiting(err):\n\t\treturn Published"}},
		Tests:   []Tests{in("pkg/queue", "TestCase_E13_WhatAFullStreamRefusesIsReportedAsFailed", "TestPublishWithoutStreamFails")},
	},
	{
		Name:    "full-stream-called-waiting",
		Breaks:  "any refusal is taken for \"its message is in the stream already\"",
		Harm:    "a full stream looks like a healthy backlog, and the sweeper leaves its events",
		Changes: []Change{{"pkg/queue/publish.go", "api.ErrorCode == storeFailed && strings", "api.ErrorCode == storeFailed || strings"}},
		Tests:   []Tests{in("pkg/queue", "TestCase_E13_WhatAFullStreamRefusesIsReportedAsFailed")},
	},
	{
		Name:    "several-messages-for-one-event",
		Breaks:  "the stream takes a second message of an event that it holds",
		Harm:    "each sweep doubles a backlog, until the stream is full and refuses what is new",
		Changes: []Change{{"pkg/queue/streams.go", "MaxMsgsPerSubject:    1,", "MaxMsgsPerSubject:    -1,"}, {"pkg/queue/streams.go", "DiscardNewPerSubject: true,", "DiscardNewPerSubject: false,"}},
		Tests:   []Tests{in("pkg/queue", "TestAnEventInTheStreamIsRefusedUntilItIsAcknowledged")},
	},
	{
		Name:    "discard-old-made",
		Breaks:  "the stream of events is made so that it drops its oldest messages when it is full",
		Harm:    "a backlog loses the events that have waited longest, and their subjects look free",
		Changes: []Change{{"pkg/queue/streams.go", "Discard:              jetstream.DiscardNew,\n\t\tMaxMsgsPerSubject:    1,\n\t\tDiscardNewPerSubject: true,", "Discard:              jetstream.DiscardOld,\n\t\tMaxMsgsPerSubject:    1,"}},
		Tests:   []Tests{in("pkg/queue", "TestSettingsAreThoseOfTheDesign", "TestCase_E13_WhatAFullStreamRefusesIsReportedAsFailed")},
	},
	{
		Name:    "discard-old-accepted",
		Breaks:  "a stream that drops its oldest messages is good enough to start with",
		Harm:    "a backlog loses the events that have waited longest",
		Changes: []Change{{"pkg/queue/streams.go", "add(have.Discard != jetstream.DiscardNew,", "add(have.Discard > jetstream.DiscardNew,"}},
		Tests:   []Tests{in("pkg/queue", "TestCheckRefusesSettingsThatLoseWork")},
	},
	{
		Name:    "max-age-accepted",
		Breaks:  "a stream whose messages expire is good enough to start with",
		Harm:    "a weekend without processors loses its events",
		Changes: []Change{{"pkg/queue/streams.go", "add(have.MaxAge > 0,", "add(have.MaxAge < 0,"}},
		Tests:   []Tests{in("pkg/queue", "TestCheckRefusesSettingsThatLoseWork")},
	},
	{
		Name:    "max-deliver-accepted",
		Breaks:  "a consumer that gives messages up is good enough to start with",
		Harm:    "a message that ran out of deliveries blocks its subject, and no sweep can ring again",
		Changes: []Change{{"pkg/queue/streams.go", "add(have.MaxDeliver > 0,", "add(have.MaxDeliver > 1<<30,"}},
		Tests:   []Tests{in("pkg/queue", "TestCheckRefusesConsumerSettingsThatLoseWork")},
	},
	{
		Name:    "payment-id-injects-subjects",
		Breaks:  "a gateway's payment id goes into the subject as it came",
		Harm:    "an id with a point is delivered to nobody, or to somebody else",
		Changes: []Change{{"pkg/event/event.go", "if plainToken.MatchString(ref) {", "if len(ref) > 0 {"}},
		Tests:   []Tests{in("pkg/event", "TestAPaymentTokenInjectsNothing")},
	},
	{
		Name:    "nak-is-an-ack",
		Breaks:  "a message that is given back is acked",
		Harm:    "after an outage of PostgreSQL every event in hand waits for a sweep",
		Changes: []Change{{"pkg/queue/delivery.go", "if err := d.settle(word); err != nil {", "if err := d.settle(ackNow); err != nil {"}, {"pkg/queue/delivery.go", "word := nakNow\n", "word := nakNow\n\t_ = word\n"}},
		Tests:   []Tests{in("pkg/queue", "TestANakDelaysTheRedelivery")},
	},
	{
		Name:   "closing-keeps-what-nobody-fetched",
		Breaks: "a consumer that closes keeps messages that it was sent and nobody took",
		Harm:   "each release delays their payments by the whole ack wait",
		Changes: []Change{
			{"pkg/queue/consumer.go", "== \"\" {\n\t\t\t\t_ = respond(m, nakNow)", "== \"\" {"},
		},
		Tests: []Tests{in("pkg/queue", "TestCase_G2_ClosingGivesBackWhatNobodyFetched")},
	},
}

// relaying: from the outbox to the application.
var relaying = []Mutant{
	{
		Name:    "outbox-marked-before-it-is-stored",
		Breaks:  "domain events are marked as relayed whatever the broker said",
		Harm:    "the application never hears that an order was paid",
		Changes: []Change{{"pkg/postgres/outbox.go", "column(out[:sent],", "column(out[:len(out)],"}},
		Tests:   []Tests{in("pkg/postgres", "TestTheOutboxIsRelayedInOrderAndOnlyItsAcknowledgedPrefixIsMarked")},
	},
	{
		Name:    "outbox-sent-outside-of-its-lock",
		Breaks:  "several relays may work at once",
		Harm:    "\"refunded\" overtakes \"paid\": the application ends in the wrong state",
		Changes: []Change{{"pkg/postgres/outbox.go", "SELECT pg_try_advisory_xact_lock(hashtext('umavez outbox'), hashtext(current_schema()))", "SELECT true"}},
		Tests:   []Tests{in("pkg/postgres", "TestOnlyOneRelayWorksAtATime")},
	},
	{
		Name:    "outbox-read-backwards",
		Breaks:  "the newest domain events go first",
		Harm:    "\"refunded\" overtakes \"paid\": the application ends in the wrong state",
		Changes: []Change{{"pkg/postgres/outbox.go", "relayed_at IS NULL ORDER BY id LIMIT", "relayed_at IS NULL ORDER BY id DESC LIMIT"}},
		Tests:   []Tests{in("pkg/postgres", "TestTheOutboxIsRelayedInOrderAndOnlyItsAcknowledgedPrefixIsMarked")},
	},
	{
		Name:    "relay-sends-after-a-failure",
		Breaks:  "a domain event goes out although the one before it was not stored",
		Harm:    "\"refunded\" overtakes \"paid\": the application ends in the wrong state",
		Changes: []Change{{"pkg/queue/relay.go", "(next-settled >= window || lastOf[key] > settled)", "(next-settled >= window || lastOf[key] < 0)"}},
		Tests:   []Tests{in("pkg/queue", "TestAPaymentsNextEventWaitsUntilTheOneBeforeItIsStored")},
	},
	{
		Name:    "refused-domain-event-counts-as-sent",
		Breaks:  "a domain event that the broker refuses is passed over",
		Harm:    "the application never hears that an order was paid",
		Changes: []Change{{"pkg/queue/relay.go", "case err := <-f.Err():\n", "case err := <-f.Err():\n\t\tif err != nil {\n\t\t\treturn nil\n\t\t}\n"}},
		Tests:   []Tests{in("pkg/queue", "TestAPaymentsNextEventWaitsUntilTheOneBeforeItIsStored")},
	},
	{
		Name:    "relay-waits-twice-for-a-refusal",
		Breaks:  "the relay waits again for an answer that it has read",
		Harm:    "one event that cannot be sent keeps those before it from being marked: they are sent again with each turn",
		Changes: []Change{{"pkg/queue/relay.go", "return settled, err //", "return settled, settle() //"}},
		Tests:   []Tests{in("pkg/queue", "TestAPaymentsNextEventWaitsUntilTheOneBeforeItIsStored")},
	},
	{
		Name:    "duplicate-answer-taken-as-stored",
		Breaks:  "the server's \"duplicate\" is believed",
		Harm:    "a domain event that the server never stored counts as sent",
		Changes: []Change{{"pkg/queue/relay.go", "if !ack.Duplicate || c.isStored", "if ack != nil || c.isStored"}},
		Tests:   []Tests{in("pkg/queue", "TestADuplicateAnswerIsNeverStored")},
	},
}

// sweeping: what got stuck.
var sweeping = []Mutant{
	{
		Name:    "sweeper-off",
		Breaks:  "a pass rings for nothing",
		Harm:    "an event whose publication failed waits for ever",
		Changes: []Change{{"pkg/sweeper/sweeper.go", "err = errors.Join(err, s.ringAll(ctx, f, dryRun, &sum))", "_ = s.ringAll"}},
		Tests:   []Tests{in("pkg/sweeper", "TestLostEventsAreQueuedOnceHoweverManySweepsRun")},
	},
	{
		Name:    "sweeper-finds-nothing-lost",
		Breaks:  "a pass looks at parked events only",
		Harm:    "an event whose publication failed, or that the broker lost, waits for ever",
		Changes: []Change{{"pkg/postgres/sweep.go", "($2, $3) AND w.next_at <= now()", "($2, $3) AND w.next_at <= now() AND w.state = 'parked'"}},
		Tests:   []Tests{in("pkg/sweeper", "TestLostEventsAreQueuedOnceHoweverManySweepsRun")},
	},
	{
		Name:    "sweeper-marks-before-publishing",
		Breaks:  "rows are pushed back before they are published",
		Harm:    "while the broker is away each pass moves lost events further off, up to six hours",
		Changes: []Change{{"pkg/sweeper/sweeper.go", "if !dryRun {\n\t\tstates = s.publish(ctx, notices)", "if !dryRun {\n\t\tif err := s.store.MarkSwept(ctx, page); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tstates = s.publish(ctx, notices)"}},
		Tests:   []Tests{in("pkg/sweeper", "TestABrokerThatIsAwayEndsThePassAndLosesNothing")},
	},
	{
		Name:    "sweeper-marks-what-was-not-published",
		Breaks:  "rows whose publication failed are pushed back like the others",
		Harm:    "while the broker is away each pass moves lost events further off, up to six hours",
		Changes: []Change{{"pkg/sweeper/sweeper.go", "failed++\n\t\t\tcontinue", "failed++"}},
		Tests:   []Tests{in("pkg/sweeper", "TestABrokerThatIsAwayEndsThePassAndLosesNothing")},
	},
	{
		Name:    "sweeper-pushes-back-what-is-in-hand",
		Breaks:  "an event that was parked a moment ago loses its own time",
		Harm:    "its message is acked, and it waits for nothing",
		Changes: []Change{{"pkg/sweeper/sweeper.go", "sum.Waiting++\n\t\t\tif r.ComesByItself() {", "sum.Waiting++\n\t\t\tif dryRun {"}},
		Tests:   []Tests{in("pkg/sweeper", "TestAnEventThatWasParkedAMomentAgoKeepsItsTime")},
	},
	{
		Name:    "sweeper-never-backs-off",
		Breaks:  "a row that keeps failing is due again at once",
		Harm:    "such rows fill each pass, and those behind them starve",
		Changes: []Change{{"pkg/postgres/sweep.go", "power(2, LEAST(", "power(1, LEAST("}},
		Tests:   []Tests{in("pkg/sweeper", "TestRowsThatAreSweptAgainAndAgainBackOffToSixHours")},
	},
	{
		Name:    "lost-stream-not-noticed",
		Breaks:  "a stream that vanished is made again, and nothing else is done",
		Harm:    "events that were published and lost wait up to six hours",
		Changes: []Change{{"pkg/sweeper/sweeper.go", "if vanished {", "if vanished && dryRun {"}},
		Tests:   []Tests{in("pkg/sweeper", "TestCase_E17_WhatTheBrokerLostIsFoundAgain")},
	},
	{
		Name:    "reconciliation-off",
		Breaks:  "silent payments are not asked about",
		Harm:    "a webhook that the gateway never sent is a payment that is never credited",
		Changes: []Change{{"pkg/sweeper/sweeper.go", "if s.cfg.ReconcileAfter <= 0 ||", "if s.cfg.ReconcileAfter >= 0 ||"}},
		Tests:   []Tests{in("pkg/sweeper", "TestReconciliationEntersOneEventForEachSilentPayment")},
	},
	{
		Name:    "reconciliation-forgets-what-failed",
		Breaks:  "a payment is reconciled once and never again",
		Harm:    "an outage of the API during that one try loses the payment",
		Changes: []Change{{"pkg/postgres/sweep.go", " || '/' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'), $7", ", $7"}},
		Tests:   []Tests{in("pkg/sweeper", "TestReconciliationEntersOneEventForEachSilentPayment")},
	},
}

// starting: what a binary refuses to run with.
var starting = []Mutant{
	{
		Name:    "synchronous-commit-off-accepted",
		Breaks:  "a server that acknowledges commits before they are durable is good enough",
		Harm:    "a power cut loses payments that were answered with 200",
		Changes: []Change{{"pkg/postgres/postgres.go", "if sync == \"off\" || fsync == \"off\" {", "if fsync == \"off\" {"}},
		Tests:   []Tests{in("pkg/postgres", "TestAServerThatIsNotDurableIsRefused")},
	},
	{
		Name:    "fsync-off-accepted",
		Breaks:  "a server that never flushes is good enough",
		Harm:    "a power cut loses payments that were answered with 200, or the whole database",
		Changes: []Change{{"pkg/postgres/postgres.go", "if sync == \"off\" || fsync == \"off\" {", "if sync == \"off\" {"}},
		Tests:   []Tests{in("pkg/postgres", "TestAServerThatIsNotDurableIsRefused")},
	},
}
