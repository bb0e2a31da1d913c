package provider

// About is what a gateway's page in the documentation is made of: facts of
// its contract as this code keeps it, in plain sentences.
type About struct {
	Title string // "Mercado Pago"
	// Credentials is how requests are authenticated, and what they cover.
	Credentials string
	// DedupeKey is what makes two requests the same event.
	DedupeKey string
	// Payment is what counts as one payment.
	Payment string
	// Lookup is what is asked, and with which key.
	Lookup string
	// Confirmed is what the gateway or its own libraries document.
	Confirmed []string
	// Unknown is what could not be established, and what umavez does instead.
	Unknown []string
	// Sandbox is how to try it without real money.
	Sandbox string
}

// Describer is implemented by every gateway, for the documentation.
type Describer interface{ About() About }
