package event

// Arrival is a verified message that is about to be stored.
type Arrival struct {
	Event
	Settle Status // StatusIgnored or StatusQuarantined settle it on receipt; "" means work
	Reason string // why, when it is settled on receipt
	// Reopen: a repeat asks for processing again even when the first was
	// processed (the gateway gives two facts one key).
	Reopen bool
}

// Stored is what became of an Arrival once its commit was flushed.
type Stored struct {
	ID      int64
	New     bool // the first of its key; false is a duplicate
	Publish bool // the bell is to be rung: new work, or a revived event
}

// Notice is what travels through the queue: where an event is, never what it
// says. Nothing personal is in it.
type Notice struct {
	ID                int64
	Provider, Account string
	PaymentRef        string // "" when the event concerns no payment
}
