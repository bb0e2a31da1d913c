package mutants

// storing: one row an event, whatever happens at once.
var storing = []Mutant{
	{
		Name:   "dedupe-by-select-then-insert",
		Breaks: "instead of ON CONFLICT the insert looks first whether the key is there",
		Harm:   "two copies that arrive together both look, and one crashes: a 5xx for a duplicate, or two events",
		Changes: []Change{{"pkg/postgres/events.go",
			"FROM arrived\n  ON CONFLICT ON CONSTRAINT events_once DO NOTHING",
			"FROM arrived a WHERE NOT EXISTS (SELECT FROM events e WHERE e.provider = a.provider AND e.account = a.account AND e.dedupe_key = a.dedupe_key)"}},
		Tests: []Tests{in("pkg/postgres", "TestCase_B3_ACopyThatIsJustBeingStoredIsWaitedFor")},
	},
	{
		Name:    "keys-inserted-unsorted",
		Breaks:  "a batch inserts its keys in the order of their arrival",
		Harm:    "batches with the same keys in other orders deadlock; each costs a second, and some end in 503",
		Changes: []Change{{"pkg/postgres/events.go", ".compare(keyOf(&arrivals[b])) })", ".compare(keyOf(&arrivals[b])) })\n\tshuffled(arrivals, &order)"}, {"pkg/postgres/events.go", "// insertNew stores", "// shuffled keeps equal keys together and orders them by their first arrival.\nfunc shuffled(arrivals []event.Arrival, order *[]int) {\n\tfirst := map[key]int{}\n\tfor i := range arrivals {\n\t\tif _, ok := first[keyOf(&arrivals[i])]; !ok {\n\t\t\tfirst[keyOf(&arrivals[i])] = i\n\t\t}\n\t}\n\tslices.SortStableFunc(*order, func(a, b int) int { return cmp.Compare(first[keyOf(&arrivals[a])], first[keyOf(&arrivals[b])]) })\n}\n\n// insertNew stores"}},
		Tests:   []Tests{in("pkg/postgres", "TestBatchesThatMeetOnTheirKeysWaitAndDoNotDeadlock")},
	},
	{
		Name:    "results-by-position",
		Breaks:  "the rows that an insert returns are taken in the order of the request",
		Harm:    "the wrong event is rung for, and another one waits",
		Changes: []Change{{"pkg/postgres/events.go", "for _, i := range firsts {", "for i := range firsts {"}},
		Tests:   []Tests{in("pkg/postgres", "TestResultsAreByKeyAndNotByPosition")},
	},
	{
		Name:    "body-through-jsonb",
		Breaks:  "bodies are stored as jsonb prints them",
		Harm:    "signatures cannot be checked again, large numbers and order are lost, NUL makes the gateway repeat for ever",
		Changes: []Change{{"pkg/postgres/events.go", "SELECT received_on, id, body, headers", "SELECT received_on, id, convert_to(convert_from(body, 'UTF8')::jsonb::text, 'UTF8'), headers"}},
		Tests:   []Tests{in("pkg/postgres", "TestANewEventIsStoredExactlyAsItCame", "TestResultsAreByKeyAndNotByPosition"), in("pkg/ingest", "TestCase_D7_NULAndHalfSurrogatesAreStoredAsTheyCame")},
	},
	{
		Name:    "key-without-the-account",
		Breaks:  "the unique key of events does not hold the account",
		Harm:    "an event of one account swallows the one of another with the same id: its payment is lost",
		Changes: []Change{{"schema/001_events.sql", "UNIQUE (provider, account, dedupe_key)", "UNIQUE (provider, dedupe_key)"}},
		Tests:   []Tests{in("pkg/postgres", "TestCase_B21_KeysBelongToProviderAndAccount")},
	},
	{
		Name:   "duplicate-resets-the-event",
		Breaks: "counting a duplicate makes its event pending again",
		Harm:   "attempts never reach their limit, and what waits for a person is tried for ever",
		Changes: []Change{{"pkg/postgres/redeliveries.go", "\n), counted AS (",
			"\n), reset AS (\n  UPDATE event_work w SET attempts = 0, state = 'pending', reason = NULL FROM repeated r WHERE w.event_id = r.id\n), counted AS ("}},
		Tests: []Tests{in("pkg/postgres", "TestCase_B17_ADuplicateOnlyMovesACounter")},
	},
	{
		Name:    "dead-event-not-revived",
		Breaks:  "a resend of a dead event is only counted",
		Harm:    "after an incident the operator presses \"resend\", the gateway is content, and the payment stays lost",
		Changes: []Change{{"pkg/postgres/redeliveries.go", "(l.status = 'dead' OR d.reopen", "(l.status = 'never' OR d.reopen"}},
		Tests:   []Tests{in("pkg/postgres", "TestCase_B18_AResendOfADeadEventRevivesIt")},
	},
	{
		Name:   "revival-of-what-was-applied",
		Breaks: "a resend revives an event that was processed",
		Harm:   "every duplicate is worked off again; all that keeps it from booking twice is the ledger's key",
		Changes: []Change{
			{"pkg/postgres/redeliveries.go", "(l.status = 'dead' OR d.reopen", "(l.status IN ('dead', 'processed') OR d.reopen"},
			{"pkg/postgres/redeliveries.go", "(l.status = 'dead' OR i.reopen", "(l.status IN ('dead', 'processed') OR i.reopen"},
		},
		Tests: []Tests{in("pkg/postgres", "TestCase_B17_ADuplicateOnlyMovesACounter", "TestCase_B18_AResendOfADeadEventRevivesIt")},
	},
	{
		Name:    "revived-without-the-lock",
		Breaks:  "two resends at one instant may both see a dead event",
		Harm:    "an event that was processed at last is worked off once more",
		Changes: []Change{{"pkg/postgres/redeliveries.go", "SELECT pg_advisory_xact_lock(hashtext('umavez revival ' || current_schema()), hashint8(id))", "SELECT id"}},
		Tests:   []Tests{in("pkg/postgres", "TestAResendThatSawTheEventDeadReadsAgainUnderTheLock")},
	},
	{
		Name:    "repeat-while-in-hand-is-lost",
		Breaks:  "a repeat that may mean something new leaves the unfinished event as it is",
		Harm:    "what the gateway told of between our question and our commit, a refund, is never asked about",
		Changes: []Change{{"pkg/postgres/redeliveries.go", "WHERE w.event_id = i.id AND i.reopen`", "WHERE w.event_id = i.id AND i.reopen AND false`"}},
		Tests:   []Tests{in("pkg/processor", "TestARepeatThatArrivesWhileTheFirstIsInHandIsNotLost")},
	},
	{
		Name:    "key-retention-drops-too-early",
		Breaks:  "keys are forgotten after a tenth of their time",
		Harm:    "a resend from the gateway's panel after some weeks is a new event",
		Changes: []Change{{"pkg/postgres/retention.go", "WHERE received_at < now() - $1::interval AND", "WHERE received_at < now() - $1::interval / 10 AND"}},
		Tests:   []Tests{in("pkg/sweeper", "TestKeysAreKeptForTheirWholeTime")},
	},
	{
		Name:   "unfinished-event-forgotten",
		Breaks: "key retention does not ask whether an event is finished",
		Harm:   "a payment that still waits is gone with its event",
		Changes: []Change{
			{"pkg/postgres/retention.go", "$1::interval AND NOT EXISTS (SELECT FROM event_work w WHERE w.event_id = o.id)", "$1::interval"},
			{"pkg/postgres/retention.go", "AS o (id) WHERE NOT EXISTS (SELECT FROM event_work w WHERE w.event_id = o.id)", "AS o (id)"},
		},
		Tests: []Tests{in("pkg/sweeper", "TestRetentionDropsOldDaysAndForgetsOldSettledEvents")},
	},
	{
		Name:    "bodies-of-unfinished-events-dropped",
		Breaks:  "body retention does not ask which days are still needed",
		Harm:    "an event that waits loses what it says, and ends as quarantined instead of credited",
		Changes: []Change{{"schema/001_events.sql", "SELECT min((e.received_at AT TIME ZONE 'UTC')::date) FROM event_work w", "SELECT max((e.received_at AT TIME ZONE 'UTC')::date) FROM event_work w"}},
		Tests:   []Tests{in("pkg/sweeper", "TestRetentionDropsOldDaysAndForgetsOldSettledEvents")},
	},
	{
		Name:    "revived-without-its-body",
		Breaks:  "a resend of an event whose body was dropped does not bring it back",
		Harm:    "the late resend is taken and cannot be read: the payment stays lost",
		Changes: []Change{{"pkg/postgres/redeliveries.go", "if len(revivable) == 0 {", "if len(revivable) >= 0 {"}},
		Tests:   []Tests{in("pkg/processor", "TestARevivedEventGetsItsDroppedBodyBack")},
	},
}

// keys: what makes two messages one event.
var keys = []Mutant{
	{
		Name:    "parts-of-a-key-run-together",
		Breaks:  "the parts of a dedupe key are joined without their lengths",
		Harm:    "two events with (\"ab\", \"c\") and (\"a\", \"bc\") are one: the second payment is lost",
		Changes: []Change{{"pkg/event/event.go", "b.WriteString(strconv.Itoa(len(p)))\n\t\tb.WriteByte(':')", "_ = strconv.Itoa(len(p))"}},
		Tests:   []Tests{in("pkg/event", "TestCase_B21_PartsOfAKeyDoNotRunIntoEachOther")},
	},
	{
		Name:    "pagpolar-envelope-id-as-the-key",
		Breaks:  "PagPolar's envelope id, which every attempt has anew, is the key",
		Harm:    "each retry is a new event: work for every one, and a credit where only the key protects",
		Changes: []Change{{"pkg/provider/pagpolar/parse.go", "m.DedupeKey = p.dedupeKey(m, env.Data, sale, subscription, r.Now)", "m.DedupeKey = event.Key(\"envelope\", string(env.ID), p.dedupeKey(m, env.Data, sale, subscription, r.Now))"}},
		Tests:   []Tests{in("pkg/provider/pagpolar", "TestPagPolarKeepsTheContractOfProviders")},
	},
	{
		Name:    "asaas-body-hash-as-the-key",
		Breaks:  "Asaas's event id does not take part in the key, the bytes do",
		Harm:    "one event with one field more is two",
		Changes: []Change{{"pkg/provider/asaas/parse.go", "case env.ID != \"\":", "case env.ID == \"-\":"}},
		Tests:   []Tests{in("pkg/provider/asaas", "TestAsaasKeepsTheContractOfProviders")},
	},
	{
		Name:    "unreadable-events-share-a-key",
		Breaks:  "messages without a name of their own all have one key",
		Harm:    "of several bodies that a person should look at only the first is kept",
		Changes: []Change{{"pkg/event/event.go", "return Key(\"body\", hex.EncodeToString(sum[:]))", "return Key(\"body\", hex.EncodeToString(sum[:0]))"}},
		Tests:   []Tests{in("pkg/provider/asaas", "TestAsaasKeepsTheContractOfProviders"), in("pkg/ingest", "TestAPanicIsOneAnswerAndNotTheEnd")},
	},
}
