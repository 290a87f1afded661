#!/bin/bash
# Run once, when the database is made: the roles that log in, none of which is
# a superuser. What they may do is granted by the migrations.
set -euo pipefail

psql -v ON_ERROR_STOP=1 --no-psqlrc --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
	--set owner="$(</run/secrets/postgres-owner)" \
	--set worker="$(</run/secrets/postgres-worker)" \
	--set analyst="$(</run/secrets/postgres-analyst)" <<'SQL'
CREATE ROLE airlock_owner LOGIN PASSWORD :'owner';
CREATE ROLE airlock_worker LOGIN PASSWORD :'worker';
CREATE ROLE airlock_analyst LOGIN PASSWORD :'analyst' CONNECTION LIMIT 20;
-- Analysts read; what they start ends.
ALTER ROLE airlock_analyst SET default_transaction_read_only = on;
ALTER ROLE airlock_analyst SET statement_timeout = '5min';
ALTER DATABASE airlock OWNER TO airlock_owner;
REVOKE ALL ON DATABASE airlock FROM PUBLIC;
GRANT CONNECT ON DATABASE airlock TO airlock_worker, airlock_analyst;
ALTER SCHEMA public OWNER TO airlock_owner;
SQL
