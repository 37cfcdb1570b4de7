-- SmallBank: examples/procedures/smallbank.lua for PostgreSQL.
--
-- Functions lock the rows from whose values they make new ones, and keep them until the commit:
-- savings before checking, and of two customers the lower number first, so that nobody waits in
-- a circle. Then they are serializable at READ COMMITTED: bank_balance reads both balances by one
-- statement, that is, from one snapshot.
CREATE UNLOGGED TABLE accounts (name bigint PRIMARY KEY, customer bigint NOT NULL);
CREATE UNLOGGED TABLE savings (customer bigint PRIMARY KEY, balance bigint NOT NULL)
    WITH (fillfactor = 50);
CREATE UNLOGGED TABLE checking (customer bigint PRIMARY KEY, balance bigint NOT NULL)
    WITH (fillfactor = 50);

INSERT INTO accounts SELECT n, n FROM generate_series(0, :customers - 1) AS n;
INSERT INTO savings SELECT n, :balance FROM generate_series(0, :customers - 1) AS n;
INSERT INTO checking SELECT n, :balance FROM generate_series(0, :customers - 1) AS n;

CREATE FUNCTION bank_balance(who bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT savings.balance + checking.balance
        FROM accounts JOIN savings USING (customer) JOIN checking USING (customer)
        WHERE name = who
    );
END
$$;

CREATE FUNCTION bank_deposit_checking(who bigint, amount bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    changed bigint;
BEGIN
    IF amount < 0 THEN
        RETURN NULL;
    END IF;
    UPDATE checking SET balance = balance + amount
        WHERE customer = (SELECT customer FROM accounts WHERE name = who) RETURNING balance INTO changed;
    RETURN changed;
END
$$;

CREATE FUNCTION bank_transact_savings(who bigint, amount bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    changed bigint;
BEGIN
    UPDATE savings SET balance = balance + amount
        WHERE customer = (SELECT customer FROM accounts WHERE name = who) AND balance + amount >= 0
        RETURNING balance INTO changed;
    RETURN changed;
END
$$;

CREATE FUNCTION bank_amalgamate(from_name bigint, to_name bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    giver bigint := (SELECT customer FROM accounts WHERE name = from_name);
    taker bigint := (SELECT customer FROM accounts WHERE name = to_name);
    moved bigint;
BEGIN
    IF giver IS NULL OR taker IS NULL OR giver = taker THEN
        RETURN NULL;
    END IF;
    SELECT balance INTO moved FROM savings WHERE customer = giver FOR NO KEY UPDATE;
    PERFORM FROM checking WHERE customer = least(giver, taker) FOR NO KEY UPDATE;
    PERFORM FROM checking WHERE customer = greatest(giver, taker) FOR NO KEY UPDATE;
    moved := moved + (SELECT balance FROM checking WHERE customer = giver);
    UPDATE savings SET balance = 0 WHERE customer = giver;
    UPDATE checking SET balance = 0 WHERE customer = giver;
    UPDATE checking SET balance = balance + moved WHERE customer = taker;
    RETURN moved;
END
$$;

CREATE FUNCTION bank_write_check(who bigint, amount bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    its_customer bigint := (SELECT customer FROM accounts WHERE name = who);
    saved bigint;
    taken bigint;
BEGIN
    SELECT balance INTO saved FROM savings WHERE customer = its_customer FOR NO KEY UPDATE;
    SELECT CASE WHEN saved + balance < amount THEN amount + 100 ELSE amount END INTO taken
        FROM checking WHERE customer = its_customer FOR NO KEY UPDATE;
    UPDATE checking SET balance = balance - taken WHERE customer = its_customer;
    RETURN taken;
END
$$;

CREATE FUNCTION bank_send_payment(from_name bigint, to_name bigint, amount bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    giver bigint := (SELECT customer FROM accounts WHERE name = from_name);
    taker bigint := (SELECT customer FROM accounts WHERE name = to_name);
    remaining bigint;
BEGIN
    IF giver IS NULL OR taker IS NULL OR giver = taker THEN
        RETURN NULL;
    END IF;
    PERFORM FROM checking WHERE customer = least(giver, taker) FOR NO KEY UPDATE;
    PERFORM FROM checking WHERE customer = greatest(giver, taker) FOR NO KEY UPDATE;
    UPDATE checking SET balance = balance - amount
        WHERE customer = giver AND balance >= amount RETURNING balance INTO remaining;
    IF FOUND THEN
        UPDATE checking SET balance = balance + amount WHERE customer = taker;
    END IF;
    RETURN remaining;
END
$$;
VACUUM ANALYZE;
CHECKPOINT;
