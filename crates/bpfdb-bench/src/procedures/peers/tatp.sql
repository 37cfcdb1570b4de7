-- TATP: examples/procedures/tatp.lua for PostgreSQL. Tables have the columns as published; sub_nbr
-- and numberx are numbers. What is one SELECT is a function in SQL, which the planner puts in the
-- place of the call.
CREATE UNLOGGED TABLE subscribers (
    s_id bigint PRIMARY KEY,
    sub_nbr bigint NOT NULL UNIQUE,
    bit_1 smallint, bit_2 smallint, bit_3 smallint, bit_4 smallint, bit_5 smallint,
    bit_6 smallint, bit_7 smallint, bit_8 smallint, bit_9 smallint, bit_10 smallint,
    hex_1 smallint, hex_2 smallint, hex_3 smallint, hex_4 smallint, hex_5 smallint,
    hex_6 smallint, hex_7 smallint, hex_8 smallint, hex_9 smallint, hex_10 smallint,
    byte2_1 smallint, byte2_2 smallint, byte2_3 smallint, byte2_4 smallint, byte2_5 smallint,
    byte2_6 smallint, byte2_7 smallint, byte2_8 smallint, byte2_9 smallint, byte2_10 smallint,
    msc_location bigint,
    vlr_location bigint
) WITH (fillfactor = 70);
CREATE UNLOGGED TABLE access (
    s_id bigint, ai_type smallint,
    data1 smallint, data2 smallint, data3 text, data4 text,
    PRIMARY KEY (s_id, ai_type)
);
CREATE UNLOGGED TABLE facilities (
    s_id bigint, sf_type smallint,
    is_active smallint, error_cntrl smallint, data_a smallint, data_b text,
    PRIMARY KEY (s_id, sf_type)
) WITH (fillfactor = 80);
CREATE UNLOGGED TABLE forwardings (
    s_id bigint, sf_type smallint, start_time smallint,
    end_time smallint NOT NULL, numberx bigint NOT NULL,
    PRIMARY KEY (s_id, sf_type, start_time)
);

CREATE FUNCTION below(bound integer) RETURNS integer LANGUAGE sql VOLATILE AS $$
    SELECT floor(random() * bound)::integer
$$;

INSERT INTO subscribers
    SELECT s_id, s_id,
        below(2), below(2), below(2), below(2), below(2),
        below(2), below(2), below(2), below(2), below(2),
        below(16), below(16), below(16), below(16), below(16),
        below(16), below(16), below(16), below(16), below(16),
        below(256), below(256), below(256), below(256), below(256),
        below(256), below(256), below(256), below(256), below(256),
        below(2147483647), below(2147483647)
    FROM generate_series(1, :subscribers) AS s_id;
-- At least one of four types, each number of them equally often: the first ones in a random order.
INSERT INTO access
    SELECT s_id, kind, below(256), below(256), 'ABC', 'ABCDE'
    FROM (
        SELECT s_id, kind, row_number() OVER (PARTITION BY s_id ORDER BY random()) AS place, most
        FROM (SELECT s_id, 1 + below(4) AS most FROM subscribers) AS counts,
            generate_series(1, 4) AS kind
    ) AS all_types
    WHERE place <= most;
INSERT INTO facilities
    SELECT s_id, kind, (below(100) < 85)::integer, below(256), below(256), 'ABCDE'
    FROM (
        SELECT s_id, kind, row_number() OVER (PARTITION BY s_id ORDER BY random()) AS place, most
        FROM (SELECT s_id, 1 + below(4) AS most FROM subscribers) AS counts,
            generate_series(1, 4) AS kind
    ) AS all_types
    WHERE place <= most;
-- None to three.
INSERT INTO forwardings
    SELECT s_id, sf_type, start, start + 1 + below(8), below(1000000000)
    FROM (
        SELECT s_id, sf_type, start,
            row_number() OVER (PARTITION BY s_id, sf_type ORDER BY random()) AS place, most
        FROM (SELECT s_id, sf_type, below(4) AS most FROM facilities) AS counts,
            generate_series(0, 16, 8) AS start
    ) AS all_starts
    WHERE place <= most;

CREATE FUNCTION tatp_get_subscriber_data(id bigint)
RETURNS SETOF subscribers LANGUAGE sql STABLE AS $$
    SELECT * FROM subscribers WHERE s_id = id
$$;

CREATE FUNCTION tatp_get_new_destination(id bigint, kind integer, start integer, ends integer)
RETURNS SETOF bigint LANGUAGE sql STABLE AS $$
    SELECT numberx
    FROM facilities JOIN forwardings USING (s_id, sf_type)
    WHERE s_id = id AND sf_type = kind AND is_active = 1 AND start_time <= start
        AND ends < end_time
$$;

CREATE FUNCTION tatp_get_access_data(id bigint, kind integer)
RETURNS SETOF access LANGUAGE sql STABLE AS $$
    SELECT * FROM access WHERE s_id = id AND ai_type = kind
$$;

-- The subscriber is changed only if there is the facility.
CREATE FUNCTION tatp_update_subscriber_data(id bigint, kind integer, new_bit integer, new_data integer)
RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    UPDATE facilities SET data_a = new_data WHERE s_id = id AND sf_type = kind;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE subscribers SET bit_1 = new_bit WHERE s_id = id;
    RETURN 1;
END
$$;

CREATE FUNCTION tatp_update_location(number bigint, location bigint)
RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    UPDATE subscribers SET vlr_location = location WHERE sub_nbr = number;
    RETURN CASE WHEN FOUND THEN 1 END;
END
$$;

CREATE FUNCTION tatp_insert_call_forwarding(
    number bigint, kind integer, start integer, ends integer, new_number bigint
) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO forwardings
        SELECT s_id, sf_type, start, ends, new_number
        FROM subscribers JOIN facilities USING (s_id)
        WHERE sub_nbr = number AND sf_type = kind
        ON CONFLICT DO NOTHING;
    RETURN CASE WHEN FOUND THEN 1 END;
END
$$;

CREATE FUNCTION tatp_delete_call_forwarding(number bigint, kind integer, start integer)
RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM forwardings
        USING subscribers
        WHERE sub_nbr = number AND forwardings.s_id = subscribers.s_id AND sf_type = kind
            AND start_time = start;
    RETURN CASE WHEN FOUND THEN 1 END;
END
$$;
VACUUM ANALYZE;
CHECKPOINT;
