package queue

// ripenAtOnce bounds how many idle places are looked into at a tick.
const ripenAtOnce = 64

// arrange lists the sources anew after a change.
func (c *consumption) arrange() {
	c.sources = c.sources[:0]
	for _, m := range c.lanes {
		for _, s := range m.sources {
			c.sources = append(c.sources, s)
		}
	}
}

func (c *consumption) ready() (ready eager) {
	for _, s := range c.sources {
		if s.ready.Load() {
			ready[priorityIndex(s.place.priority)] = true
		}
	}
	return ready
}

func (c *consumption) anyReady() bool {
	_, ok := c.sweep.next(c.ready())
	return ok
}

// inTurn returns the ready source of a priority whose turn it is: of the
// tenant that was served longest ago the lane that was. So a tenant's first
// job waits for one of each other tenant at most, however many they have. Only
// this goroutine makes sources unready, so there is one.
func (c *consumption) inTurn(priority int) *source {
	var next *source
	for _, s := range c.sources {
		if priorityIndex(s.place.priority) == priority && s.ready.Load() && (next == nil || c.sooner(s, next)) {
			next = s
		}
	}
	if next == nil {
		panic("a ready source vanished")
	}
	return next
}

func (c *consumption) sooner(a, b *source) bool {
	if x, y := c.tenants[a.place.tenant], c.tenants[b.place.tenant]; x != y {
		return x < y
	}
	return a.served < b.served
}

// serve notes that a source gave a job. A look into an empty one costs its
// tenant nothing.
func (c *consumption) serve(s *source) {
	c.turn++
	s.served = c.turn
	c.tenants[s.place.tenant] = c.turn
}

// forget drops the turns of tenants that have no source any more, so that who
// comes and goes leaves nothing behind.
func (c *consumption) forget() {
	here := map[string]uint64{}
	for _, s := range c.sources {
		if turn, ok := c.tenants[s.place.tenant]; ok {
			here[s.place.tenant] = turn
		}
	}
	c.tenants = here
}

// ripen makes idle sources ready again, some at a time and each in its turn: a
// redelivered message rings no bell.
func (c *consumption) ripen() {
	for range min(len(c.sources), ripenAtOnce) {
		c.ripened = (c.ripened + 1) % len(c.sources)
		s := c.sources[c.ripened]
		s.echo = false
		s.ready.Store(true)
	}
}

// resound makes ready those whose bell may have come before their message.
func (c *consumption) resound() {
	for _, s := range c.sources {
		if s.echo {
			s.echo = false
			s.ready.Store(true)
		}
	}
}

func (c *consumption) calm() {
	for _, s := range c.sources {
		s.ready.Store(false)
	}
}

// rouse has the next round attend to what waits for it.
func (c *consumption) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
