package queue

import (
	"sync"
	"time"
)

// A meter's window: so many buckets of so long.
const (
	meterBuckets = 6
	meterBucket  = 10 * time.Second
)

// meter counts the jobs that a worker was done with, by lane, over the last
// minute.
type meter struct {
	mu sync.Mutex
	// began is when the first was counted. It and lanes are guarded by mu.
	began time.Time
	lanes map[string]*[meterBuckets]meterCount
}

// meterCount is the count of one bucket, and which one it is.
type meterCount struct {
	number int64
	jobs   int
}

func (m *meter) count(lane string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lanes == nil {
		m.lanes, m.began = map[string]*[meterBuckets]meterCount{}, now
	}
	counts := m.lanes[lane]
	if counts == nil {
		counts = new([meterBuckets]meterCount)
		m.lanes[lane] = counts
	}
	number := now.UnixNano() / int64(meterBucket)
	c := &counts[number%meterBuckets]
	if c.number != number {
		*c = meterCount{number: number}
	}
	c.jobs++
}

// rates are jobs per second over the last minute, of the lanes that had any. It
// forgets the others.
func (m *meter) rates(now time.Time) map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := now.UnixNano()/int64(meterBucket) - meterBuckets + 1
	span := min(now.Sub(m.began), now.Sub(time.Unix(0, oldest*int64(meterBucket))))
	span = max(span, time.Second)
	var rates map[string]float64 // absent, not empty, as presence is read back
	for lane, counts := range m.lanes {
		sum := 0
		for _, c := range counts {
			if c.number >= oldest {
				sum += c.jobs
			}
		}
		if sum == 0 {
			delete(m.lanes, lane)
			continue
		}
		if rates == nil {
			rates = map[string]float64{}
		}
		rates[lane] = float64(sum) / span.Seconds()
	}
	return rates
}
