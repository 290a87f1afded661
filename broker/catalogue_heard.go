package broker

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"airlock/broker/provider"
	"airlock/job"
)

// Most rounds of asking bring the answers of the round before. An answer is
// known by its digest, so that one of a megabyte costs its hash and not its
// reading; an announcement is known by its own, so that one that changes does
// not have its neighbours checked anew.

// digestKey is an answer's digest.
type digestKey [sha256.Size]byte

// heardService is what an answer came to: the instance, and its announcements.
type heardService struct {
	id     string
	offers []checkedTool
	used   bool // in the last round
}

// hear reads a round's answers, in the order of the instances' ids, and
// forgets what this round did not bring.
func (c *Catalogue) hear(answers [][]byte) []heardService {
	var round []heardService
	room := maxAnnouncements
	c.told = 0
	for _, answer := range answers {
		key := digestKey(sha256.Sum256(answer))
		s, known := c.heard[key]
		if !known {
			s = c.read(answer, room)
		}
		if room -= len(s.offers); room < 0 {
			c.cfg.Log.Warn().Int(fieldCount, maxAnnouncements).Msg("more tools are announced than are looked at")
			break
		}
		s.used = true
		c.heard[key] = s
		round = append(round, s)
	}
	if c.told > maxTold {
		c.cfg.Log.Warn().Int(fieldCount, c.told-maxTold).Msg("more tools refused")
	}
	c.forgetUnused()
	slices.SortStableFunc(round, func(a, b heardService) int { return strings.Compare(a.id, b.id) })
	return round
}

// read takes an answer apart. One that cannot be read announces nothing, and is
// remembered too. It reads no more than one announcement beyond room.
func (c *Catalogue) read(answer []byte, room int) heardService {
	s, err := decodeService(answer)
	if err != nil {
		c.cfg.Log.Debug().Err(err).Msg("announcement not read")
		return heardService{offers: []checkedTool{{refused: &job.RefusedTool{Reason: job.Printable("announcement not read: "+err.Error(), 500), Providers: 1}}}}
	}
	heard := heardService{id: s.ID}
	for _, e := range s.Endpoints {
		if len(heard.offers) > room {
			break
		}
		if strings.HasPrefix(e.Subject, provider.SubjectPrefix) { // else another kind of service
			heard.offers = append(heard.offers, c.check(e.Subject, e.Metadata))
		}
	}
	return heard
}

// forgetUnused drops the answers that did not come again, and with them the
// announcements that no other holds.
func (c *Catalogue) forgetUnused() {
	changed := false
	for key, s := range c.heard {
		if !s.used {
			delete(c.heard, key)
			changed = true
			continue
		}
		s.used = false
		c.heard[key] = s
	}
	if !changed {
		return
	}
	held := map[*Tool]bool{}
	refused := map[*job.RefusedTool]bool{}
	for _, s := range c.heard {
		for _, o := range s.offers {
			held[o.tool], refused[o.refused] = true, true
		}
	}
	for key, o := range c.checked {
		if o.tool != nil && !held[o.tool] || o.refused != nil && !refused[o.refused] {
			delete(c.checked, key)
		}
	}
}

// maxAnnouncements bounds what a round is made of, refused tools included, and
// with it what is remembered.
const maxAnnouncements = 4 * maxTools

// maxTold is how many refusals of a round the log is given; the others are
// counted there, and listed by Refused.
const maxTold = 20

func (c *Catalogue) tellRefused(no *job.RefusedTool) {
	if c.told++; c.told <= maxTold {
		c.cfg.Log.Warn().Str(fieldSubject, no.Subject).Str(fieldReason, no.Reason).Msg("tool refused")
	}
}

// maxRefused bounds how many refusals are listed; the log has all.
const maxRefused = 10_000

// refusals counts equal ones together.
type refusals map[job.RefusedTool]int

func (r refusals) add(no job.RefusedTool) {
	no.Providers = 0
	if _, known := r[no]; known || len(r) < maxRefused {
		r[no]++
	}
}

func (r refusals) list() []job.RefusedTool {
	list := make([]job.RefusedTool, 0, len(r))
	for no, count := range r {
		no.Providers = count
		list = append(list, no)
	}
	slices.SortFunc(list, func(a, b job.RefusedTool) int { return strings.Compare(a.Subject+a.Reason, b.Subject+b.Reason) })
	return list
}

// refuse lists a tool for which the catalogue has no room; mu is held.
func (c *Catalogue) refuse(t *Tool, providers int) {
	if len(c.refused) < maxRefused {
		c.refused = append(c.refused, job.RefusedTool{
			Subject: job.ToolSubject(t.Namespace, t.Name), Providers: providers,
			Reason: fmt.Sprintf("there are %d tools already, which is as many as are known", maxTools),
		})
	}
}

// Offer is a tool and how many instances announced it in the last round.
type Offer struct {
	*Tool
	Providers int
}

// Offers lists the tools of one namespace, or of all if that is "", sorted by
// namespace and name.
func (c *Catalogue) Offers(namespace string) []Offer {
	c.mu.RLock()
	offers := make([]Offer, 0, len(c.entries))
	for name, e := range c.entries {
		if namespace == "" || name.namespace == namespace {
			offers = append(offers, Offer{e.tool, e.providers})
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(offers, func(a, b Offer) int {
		return toolName{a.Namespace, a.Name}.compare(toolName{b.Namespace, b.Name})
	})
	return offers
}

// Refused lists the announcements of the last round that are no tools.
func (c *Catalogue) Refused() []job.RefusedTool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.refused)
}
