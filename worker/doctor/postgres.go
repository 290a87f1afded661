package doctor

import "context"

// postgresServer judges what the caller found out from the server.
func postgresServer(_ context.Context, h Host) []Finding {
	if h.Postgres == "" {
		return unchecked("give --postgres, or AIRLOCK_POSTGRES")
	}
	s, err := parseService("Postgres", h.Postgres)
	if err != nil {
		return unchecked(err.Error())
	}
	all := s.password()
	if h.Database == nil || h.Database.Error != "" {
		why := "nobody asked it"
		if h.Database != nil {
			why = show(h.Database.Error)
		}
		return append(all, unchecked(why)...)
	}
	all = append(all, s.exposure(h.Database.Listens, h.Database.Open, h.Database.TLS)...)
	if h.Database.Superuser {
		all = append(all, found(Warning, "workers connect as a superuser of Postgres, who may read files and run programs of its host",
			"let them connect as a user in the role airlock_worker, and migrate as another")...)
	}
	return all
}
