package powercut

import "slices"

// content is what a file holds: now, and after a cut that takes everything.
type content struct {
	now, safe []byte
	pending   []change // since the last sync, in order
	dirty     bool     // now and safe may differ, also when nothing is pending
}

// change is one write, or one truncation.
type change struct {
	off  int64  // where the data goes; of a truncation the new size
	data []byte // never changed
	cut  bool   // a truncation
}

func (c *content) change(ch change) {
	c.now = ch.apply(c.now)
	c.pending = append(c.pending, ch)
	c.dirty = true
}

func (c *content) sync() {
	for _, ch := range c.pending {
		c.safe = ch.apply(c.safe)
	}
	c.pending = nil
}

// apply changes b, and returns it as append does.
func (ch change) apply(b []byte) []byte {
	if ch.cut {
		return resize(b, ch.off)
	}
	if end := ch.off + int64(len(ch.data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[ch.off:], ch.data)
	return b
}

// resize gives b a size; what is new is zero.
func resize(b []byte, size int64) []byte {
	old := int64(len(b))
	if size <= old {
		return b[:size]
	}
	b = slices.Grow(b, int(size-old))[:size]
	clear(b[old:])
	return b
}

// pieces cuts a write at the borders of sectors of the file.
func (ch change) pieces(sector int64) []change {
	if ch.cut || len(ch.data) == 0 {
		return []change{ch}
	}
	var all []change
	for at := int64(0); at < int64(len(ch.data)); {
		end := min((ch.off+at)/sector*sector+sector-ch.off, int64(len(ch.data)))
		all = append(all, change{off: ch.off + at, data: ch.data[at:end]})
		at = end
	}
	return all
}
