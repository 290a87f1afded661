package worker

import "context"

// unload takes the messages out of the queue whose jobs have ended, of lanes
// that no worker serves: nobody else would, and they count against the tenant.
// A lane must have too many again and again, since some are always on their way
// into the ledger.
func (i *inspector) unload(ctx context.Context, stock, waiting map[string]int) {
	for lane := range i.surplus {
		if stock[lane] <= waiting[lane] || i.Fleet.Served(lane) {
			delete(i.surplus, lane)
		}
	}
	for lane, count := range stock {
		if count <= waiting[lane] || i.Fleet.Served(lane) {
			continue
		}
		if i.surplus[lane]++; i.surplus[lane] < missedThrice {
			continue
		}
		delete(i.surplus, lane)
		n, err := i.Fleet.Unload(ctx, lane, i.Backlog.Void)
		i.Decisions.add(decidedUnloaded, n)
		if n > 0 {
			i.Log.Info().Str(fieldLane, lane).Int(fieldCount, n).Msg("messages of jobs that have ended taken out of the queue")
		}
		if err != nil {
			i.warn(ctx, err, "lane not unloaded")
		}
	}
}
