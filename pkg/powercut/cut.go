package powercut

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Mode says what a cut leaves of what was not synced.
type Mode string

// The modes.
const (
	// LoseAll leaves nothing.
	LoseAll Mode = "lose all"
	// Reorder leaves an arbitrary part: each name change, each truncation, and
	// each 4 KiB page of each write is there or is not.
	Reorder Mode = "reorder"
	// Torn is Reorder by sectors of 512 bytes: a page may be new in its
	// middle and old around it.
	Torn Mode = "torn"
)

// Modes are all of them.
var Modes = []Mode{LoseAll, Reorder, Torn}

// Loss is what a cut met that was not synced, and what became of it. Kept and
// Lost count pieces: pages, sectors, truncations, name changes.
type Loss struct {
	Mode  Mode `json:"mode"`
	Files int  `json:"files"`
	Kept  int  `json:"kept"`
	Lost  int  `json:"lost"`
}

func (l Loss) String() string {
	return fmt.Sprintf("%s: %d files, %d pieces kept, %d lost", l.Mode, l.Files, l.Kept, l.Lost)
}

// Cut takes the power away. Every operation fails from now on, those that wait
// for a sync included. seed chooses what is left; the same unsynced changes and
// the same seed leave the same. Cutting what is off does nothing.
func (d *Disk) Cut(mode Mode, seed uint64) Loss {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := Loss{Mode: mode}
	if d.off {
		return l
	}
	d.off = true
	rng := rand.New(rand.NewPCG(seed, 0xd1342543de82ef95))
	// Some cuts take nearly everything, some nearly nothing.
	keep := 0.1 + 0.8*rng.Float64()
	sector := int64(4096)
	if mode == Torn {
		sector = 512
	}
	stays := func() bool {
		if mode != LoseAll && rng.Float64() < keep {
			l.Kept++
			return true
		}
		l.Lost++
		return false
	}
	for _, n := range d.sorted() {
		if len(n.content.pending)+len(n.dir.pending) > 0 {
			l.Files++
		}
		for _, r := range n.dir.pending {
			if stays() {
				r.apply(n.dir.safe)
			}
		}
		for _, ch := range n.content.pending {
			for _, piece := range ch.pieces(sector) {
				if stays() {
					n.content.safe = piece.apply(n.content.safe)
				} else if end := piece.off + int64(len(piece.data)); mode != LoseAll && !piece.cut && end > int64(len(n.content.safe)) && rng.IntN(3) == 0 {
					// The file has grown and what it grew by was not
					// written: it reads as zeros.
					n.content.safe = resize(n.content.safe, end)
				}
			}
		}
		n.dir.pending, n.content.pending = nil, nil
	}
	return l
}

// Reopen gives the power back: what the cut left is the present. Files that
// were open stay unusable.
func (d *Disk) Reopen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.off {
		return
	}
	d.off = false
	d.epoch++
	for _, n := range d.nodes {
		n.links, n.addedIn, n.opened = 0, nil, 0
	}
	reached := map[uint64]*node{}
	d.used = 0
	d.restore(d.nodes[rootID], reached)
	d.nodes = reached
	clear(d.files)
}

// restore makes the durable state of a node and of all below it the present.
func (d *Disk) restore(n *node, reached map[uint64]*node) {
	n.links++
	if reached[n.id] != nil {
		return
	}
	reached[n.id] = n
	if n.content.dirty {
		n.content = content{now: slices.Clone(n.content.safe), safe: n.content.safe}
	}
	d.used += int64(len(n.content.now))
	if n.isDir() {
		clear(n.dir.now)
		for name, child := range n.dir.safe {
			n.dir.now[name] = child
			d.restore(child, reached)
		}
	}
}

// sorted are all nodes in the order of their numbers, so that a seed repeats.
func (d *Disk) sorted() []*node {
	all := make([]*node, 0, len(d.nodes))
	for _, n := range d.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *node) int { return int(a.id) - int(b.id) })
	return all
}
