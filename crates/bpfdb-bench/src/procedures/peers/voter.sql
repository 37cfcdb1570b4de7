-- Voter: examples/procedures/voter.lua for PostgreSQL.
--
-- The votes of a contestant are the sum of SLOTS rows, so that sessions do not wait for each
-- other's row. A page has room for new versions of its rows, which then need no work in the index.
\set SLOTS 64

CREATE UNLOGGED TABLE areas (area integer PRIMARY KEY, state text NOT NULL);
CREATE UNLOGGED TABLE contestants (contestant integer PRIMARY KEY, name text NOT NULL);
CREATE UNLOGGED TABLE totals (
    contestant integer,
    slot integer,
    votes bigint NOT NULL,
    PRIMARY KEY (contestant, slot)
) WITH (fillfactor = 10);
CREATE UNLOGGED TABLE phones (phone bigint PRIMARY KEY, votes integer NOT NULL)
    WITH (fillfactor = 80);
CREATE UNLOGGED TABLE votes (
    phone bigint,
    number integer,
    state text NOT NULL,
    contestant integer NOT NULL,
    PRIMARY KEY (phone, number)
);

INSERT INTO areas
    SELECT area, chr(65 + area % 26) || chr(65 + area % 25) FROM generate_series(201, 500) AS area;
INSERT INTO contestants SELECT n, 'Contestant ' || n FROM generate_series(1, :contestants) AS n;
INSERT INTO totals
    SELECT n, slot, 0
    FROM generate_series(1, :contestants) AS n, generate_series(0, :SLOTS - 1) AS slot;

-- 0 the vote counts, 1 there is no such contestant, 2 the phone has cast its votes.
CREATE FUNCTION vote(its_area integer, choice integer, its_phone bigint, vote_limit integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    its_state text;
    cast_votes integer;
BEGIN
    PERFORM FROM contestants WHERE contestant = choice;
    IF NOT FOUND THEN
        RETURN 1;
    END IF;
    INSERT INTO phones VALUES (its_phone, 1)
        ON CONFLICT (phone) DO UPDATE SET votes = phones.votes + 1 WHERE phones.votes < vote_limit
        RETURNING phones.votes INTO cast_votes;
    IF NOT FOUND THEN
        RETURN 2;
    END IF;
    SELECT state INTO its_state FROM areas WHERE area = its_area;
    INSERT INTO votes VALUES (its_phone, cast_votes, coalesce(its_state, 'XX'), choice);
    UPDATE totals SET votes = totals.votes + 1
        WHERE contestant = choice AND slot = pg_backend_pid() % 64;
    RETURN 0;
END
$$;
VACUUM ANALYZE;
CHECKPOINT;
