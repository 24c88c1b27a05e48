"""Tables in a real PostgreSQL: types, names, rights, lost connections, changed tables, and the tables that are written."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import shoal
from shoal.engines import Resources, open_data, parse_resources
from shoal.engines.databases.ibis_engine import IbisEngine
from shoal.engines.databases.ibis_source import IbisSource
from shoal.engines.databases.output import PURPOSE
from shoal.engines.databases.range_types import choose_type, parse_label
from shoal.engines.databases.sources import parse_table_name
from shoal.engines.keyed_hash import KeyedHash
from tests.support import postgres
from tests.support.engines import connect_ibis
from tests.support.postgres import Server

pytestmark = pytest.mark.engines

POLICY = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[shoal.KAnonymity(2)])
PEOPLE = pa.table({"age": [20, 21, 22, 23, 40, 41, 42, 43], "ill": [*"abcdabcd"]})
SEED = 2**80 + 12345


@pytest.fixture(scope="module")
def server() -> Server:
    return postgres.require_server()


@pytest.fixture(autouse=True)
def clean(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test finds the table ``people`` alone in the schema ``public``; the environment has the password."""
    monkeypatch.setenv("PGPASSWORD", server.password)
    end_sessions(server)  # a failed test may hold one
    server.run("DROP SCHEMA IF EXISTS public, clinic CASCADE", "CREATE SCHEMA public")
    server.upload(PEOPLE, "people")
    yield


def tables(server: Server) -> list[str]:
    """All tables that are not temporary."""
    schemas = "('public', 'clinic')"
    query = (
        f"SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relnamespace::regnamespace::text IN {schemas}"
    )
    return sorted(name for (name,) in server.rows(query))


def anonymize(server: Server, policy: shoal.Policy = POLICY, table: str = "people", **given: Any) -> shoal.Release:
    return shoal.anonymize(server.url(), policy, table=table, **{"seed": SEED, **given})


# Values


KINDS: dict[str, tuple[str, pa.Array]] = {
    "text": ("text", pa.array(["a", "A", " a", "", None, "ß ☃"])),
    "varchar(9)": ("text", pa.array(["1", "1.0", "01", "", None, "x"])),
    "smallint": ("number", pa.array([1, -1, 0, 32767, None, 1], pa.int16())),
    "bigint": ("text", pa.array([2**62, -(2**62), 0, 1, None, 1], pa.int64())),
    "real": ("number", pa.array([0.1, -0.0, 0.0, math.nan, None, 1e30], pa.float32())),
    "double precision": ("number", pa.array([0.1, -0.0, 0.0, math.nan, None, 1e100])),
    "numeric(9, 3)": (
        "number",
        pa.array([Decimal(n) for n in ("1.5", "1.500", "-0.001", "7", "0", "2")], pa.decimal128(9, 3)),
    ),
    "numeric": ("text", pa.array([Decimal(n) for n in ("1.5", "1.50", "-0.00001", "12345678901234567890", "0", "2")])),
    "boolean": ("text", pa.array([True, False, None, True, True, False])),
    "date": (
        "date",
        pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None, *[datetime.date(2024, 2, 29)] * 3]),
    ),
    "timestamp": (
        "date",
        pa.array([datetime.datetime(2024, 2, 29, 23, 59, 59, 5), None, *[datetime.datetime(1969, 1, 1)] * 4]),
    ),
    "timestamptz": (
        "date",
        pa.array([datetime.datetime(2024, 3, 31, 0, 30, tzinfo=datetime.UTC), None] * 3, pa.timestamp("us", "UTC")),
    ),
    "time": ("text", pa.array([datetime.time(1, 2, 3, 4), None, *[datetime.time(0)] * 4])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_read_and_kept_as_in_memory(kind: str, server: Server) -> None:
    """The same distinct values, and the same fingerprint of a table that keeps them."""
    reading, values = KINDS[kind]
    frame = pa.table({"v": values, "q": [*"xxxyyy"]})
    server.run("DROP TABLE IF EXISTS kinds", f"CREATE TABLE kinds (v {kind}, q text)")
    with server.connect() as connection, connection.cursor().copy("COPY kinds FROM STDIN") as copy:
        for row in zip(values.to_pylist(), [*"xxxyyy"], strict=True):
            copy.write_row(row)
    roles: dict[str, Any] = {"text": {"v": "categorical"}, "number": {"v": "numeric"}, "date": {"v": "date"}}
    kept = shoal.Policy(quasi={"q": "categorical"}, keep=["v"], require=[shoal.KAnonymity(3)])
    recoded = shoal.Policy(quasi=roles[reading], require=[shoal.KAnonymity(2)], suppress=1.0)
    for policy in (kept, recoded):
        memory, database = (shoal.anonymize(frame, policy, seed=SEED), anonymize(server, policy, "kinds"))
        assert database.certificate == memory.certificate
        assert dict(database.measures) == dict(memory.measures)


def test_a_written_release_is_the_same_in_every_format(server: Server, tmp_path: Path) -> None:
    server.run(
        "CREATE TABLE odd (q text, n numeric, z timestamptz, b bytea, u uuid)",
        r"INSERT INTO odd SELECT 'x', i / 8.0, '2024-01-01 12:00+05', '\x01', gen_random_uuid() FROM generate_series(1, 40) i",
    )
    policy = shoal.Policy(
        quasi={"q": "categorical"},
        keep=["n", "z", "u"],
        accept={"n": "a test", "u": "a test"},
        require=[shoal.KAnonymity(3)],
    )
    release = anonymize(server, policy, "odd")
    for name, given in (
        ("csv", {"format": "csv"}),
        ("parquet", {"format": "parquet"}),
        ("table", {"table": "odd_release"}),
    ):
        folder = release.save(tmp_path / name, **given)
        assert json.loads((folder / "certificate.json").read_text())["fingerprint"] == release.certificate.fingerprint
    assert shoal.check(server.url(), policy, table="odd_release").fingerprint == release.certificate.fingerprint
    types = server.rows(
        "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = 'odd_release'::regclass AND attnum > 0"
    )
    assert dict(types) == {"q": "text", "n": "numeric", "z": "timestamp with time zone", "u": "text"}


def test_collations_and_enums_do_not_merge_or_reveal_values(server: Server) -> None:
    """A collation without case, and an enum with a label that no record has: it would be visible in the type."""
    server.run(
        "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TYPE grade AS ENUM ('low', 'high', 'nobody has this')",
        "CREATE TABLE odd (word text COLLATE nocase, grade grade)",
        "INSERT INTO odd VALUES ('a', 'low'), ('A', 'low'), ('a', 'high'), ('A', 'high')",
    )
    policy = shoal.Policy(quasi={"word": "categorical"}, keep=["grade"], require=[shoal.KAnonymity(2)])
    release = anonymize(server, policy, "odd")
    assert release.certificate.smallest == 2 and sorted(set(release.frame["word"])) == ["A", "a"]


@pytest.mark.parametrize("kind", ["jsonb", "integer[]", "point", "xml"])
def test_a_type_that_cannot_be_grouped_is_named_only_where_it_is_used(kind: str, server: Server) -> None:
    server.run(f"CREATE TABLE odd AS SELECT age, ill, NULL::{kind} AS extra FROM people")
    assert anonymize(server, table="odd").dropped == ("extra",)
    for policy in (
        shoal.Policy(quasi={"extra": "categorical"}, require=[shoal.KAnonymity(2)]),
        shoal.Policy(quasi={"age": "numeric"}, keep=["extra"], require=[shoal.KAnonymity(2)]),
    ):
        with pytest.raises(shoal.DataError, match=r"column 'extra' holds .* values, which cannot be grouped"):
            anonymize(server, policy, "odd")


@pytest.mark.parametrize(
    ("values", "words"),
    [("'infinity'::date", "between the years"), ("'Infinity'::numeric", "infinite"), ("1e80::numeric", "76 digits")],
)
def test_values_that_cannot_be_read(values: str, words: str, server: Server) -> None:
    server.run(f"CREATE TABLE odd AS SELECT {values} AS v FROM generate_series(1, 4)")
    kind = "date" if "date" in values else "numeric"
    with pytest.raises(shoal.DataError, match=words):
        anonymize(server, shoal.Policy(quasi={"v": kind}, require=[shoal.KAnonymity(2)]), "odd")


def test_an_empty_table(server: Server) -> None:
    server.run("DELETE FROM people")
    with pytest.raises(shoal.DataError, match="the table is empty"):
        anonymize(server)


def test_people_are_counted(server: Server) -> None:
    frame = pa.table({"who": [*"aabbccdd"], "age": [1, 1, 1, 2, 3, 3, 4, 4], "ill": [*"xyxyxyxy"]})
    server.upload(frame, "visits")
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], unit="who", require=[shoal.KAnonymity(2)])
    memory, database = (shoal.anonymize(frame, policy, seed=SEED), anonymize(server, policy, "visits"))
    assert database.certificate == memory.certificate and database.certificate.evidence == "people"
    assert "who" not in database.frame.columns


# Names


@pytest.mark.parametrize(
    "name", ['a"b', "Upper Case", "größe", "s", "r0", "k0", "select", "%s", "x" * 63, "a.b", "it's"]
)
def test_odd_column_names(name: str, server: Server, tmp_path: Path) -> None:
    frame = pa.table({name: [1, 1, 2, 2], "k1": [*"abab"]})
    server.upload(frame, "odd")
    policy = shoal.Policy(quasi={name: "numeric"}, keep=["k1"], require=[shoal.KAnonymity(2)])
    release = anonymize(server, policy, "odd")
    assert release.certificate == shoal.anonymize(frame, policy, seed=SEED).certificate
    release.save(tmp_path / "release", table="odd_release")
    assert shoal.check(server.url(), policy, table="odd_release").fingerprint == release.certificate.fingerprint


def test_a_released_name_that_the_database_would_cut_off(server: Server, tmp_path: Path) -> None:
    name = "ä" * 31
    server.upload(pa.table({name: [1, 2, 3, 4]}), "odd")
    policy = shoal.Policy(quasi={name: "numeric"}, require=[shoal.KAnonymity(2)])
    release = anonymize(server, policy, "odd", write="lo-hi")
    with pytest.raises(shoal.PolicyError, match="more than 63 bytes"):
        release.save(tmp_path / "release", table="odd_release")
    release.save(tmp_path / "release")
    assert not (tmp_path / "release" / "table.csv").exists()
    with pytest.raises(shoal.PolicyError, match="more than 63 bytes"):
        release.save(tmp_path / "other", table="t" * 64)


@pytest.mark.parametrize("name", ['clinic."Odd.Name"', "clinic.patients", "Clinic.Patients", '"people"', "PEOPLE"])
def test_tables_are_found_by_their_names(name: str, server: Server) -> None:
    server.run("CREATE SCHEMA clinic", "CREATE TABLE clinic.patients AS TABLE people")
    server.run('CREATE VIEW clinic."Odd.Name" AS TABLE people')
    assert anonymize(server, table=name).certificate.records == len(PEOPLE)


@pytest.mark.parametrize("name", ["", ".", "a.b.c", '"a', 'a"b', "clinic.", '""'])
def test_names_that_are_no_names(name: str) -> None:
    with pytest.raises(shoal.PolicyError, match="is not the name of a table"):
        parse_table_name(name)


def test_a_missing_table_is_an_error_with_the_choices(server: Server) -> None:
    for name in ("peopel", "other.people", '"PEOPLE"'):
        with pytest.raises(shoal.DataError, match=r"the database has no table .*"):
            anonymize(server, table=name)
    with pytest.raises(shoal.DataError, match=r"choose from 'people' \(did you mean 'people'\?\)"):
        anonymize(server, table="peopel")
    with pytest.raises(shoal.PolicyError, match=r"Name the table \(table=, --table\); choose from 'people'"):
        shoal.anonymize(server.url(), POLICY)
    with pytest.raises(shoal.PolicyError, match="names a table of a database"):
        shoal.anonymize(PEOPLE, POLICY, table="people")
    with pytest.raises(shoal.DataError, match="opens an Ibis table, or a connection string"):
        shoal.anonymize(PEOPLE, POLICY, engine="ibis")


# Passwords and connections


URLS = (
    "postgresql://ann:hunter2@127.0.0.1/x",
    "postgres://ann:hunt%65r2@127.0.0.1/x",
    "postgresql://127.0.0.1/x?password=hunter2",
    "POSTGRESQL://127.0.0.1/x?user=ann&PassWord=hunter2",
    "postgresql://ann:hun/ter2@127.0.0.1/x.csv",
    "postgresql:///x?sslpassword=hunter2",
)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("engine", [None, "memory", "duckdb", "ibis"])
def test_a_password_in_the_connection_string_is_refused(url: str, engine: str | None) -> None:
    with pytest.raises(shoal.PolicyError, match=r"PGPASSWORD, .* ~/\.pgpass, .* service") as caught:
        shoal.anonymize(url, POLICY, engine=engine)
    assert "ter2" not in str(caught.value) and caught.value.__cause__ is None


def test_connections_that_fail(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    port = server.port
    urls = {
        server.url(database="nowhere"): "nowhere",
        server.url(user="nobody"): "password authentication failed",
        f"postgresql://127.0.0.1:{port + 1}/x?connect_timeout=3": "refused",
        "postgresql:///?service=absent": "absent",
        "postgresql://127.0.0.1:notaport/x": "",
    }
    for url, words in urls.items():
        with pytest.raises(shoal.DataError, match=f"connect.*{words}") as caught:
            shoal.anonymize(url, POLICY, table="people")
        assert server.password not in str(caught.value)
    monkeypatch.setenv("PGPASSWORD", "wr0ng secret")
    with pytest.raises(shoal.DataError, match="password authentication failed") as caught:
        anonymize(server)
    assert "wr0ng" not in str(caught.value) and caught.value.__suppress_context__


def test_a_service_file_has_the_password(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / "services.conf"
    file.write_text(
        f"[clinic]\nhost=127.0.0.1\nport={server.port}\ndbname=postgres\nuser={postgres.ADMIN}\npassword={server.password}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    release = shoal.anonymize("postgresql:///?service=clinic", POLICY, table="people")
    release.save(tmp_path / "release", table="people_release")
    for path in [*(tmp_path / "release").iterdir(), *(tmp_path / "release.owner").iterdir()]:
        assert server.password not in path.read_text(encoding="utf-8")


def test_neither_values_nor_the_secret_nor_its_keys_are_sent_in_a_statement(server: Server, tmp_path: Path) -> None:
    before = len(server.log())
    policy = shoal.Policy(quasi={"age": "numeric"}, keep=["ill"], require=[shoal.KAnonymity(2)])
    server.upload(pa.table({"age": [1234567] * 30, "ill": ["canary", "parrot", "finch"] * 10}), "equal")
    release = anonymize(server, policy, "equal", method="kmember")
    release.save(tmp_path / "release", table="equal_release")
    log = server.log()[before:].lower()
    keyed = KeyedHash.of(SEED)
    hidden = ["canary", "1234567", str(SEED), f"{SEED:x}", *map(str, keyed.key), keyed.derive_key(PURPOSE).hex()]
    assert "group by" in log and not [text for text in hidden if text in log]


# Rights


@pytest.fixture
def role(server: Server) -> Iterator[str]:
    """A role that may read ``people`` and nothing else."""
    server.run("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    server.run(f"CREATE ROLE reader LOGIN PASSWORD '{server.password}'")
    server.run("GRANT USAGE ON SCHEMA public TO reader", "GRANT SELECT ON people TO reader")
    yield server.url(user="reader")
    server.run("DROP OWNED BY reader CASCADE", "DROP ROLE reader")


def test_a_role_without_rights_gets_an_error_before_anything_is_read(role: str, server: Server, tmp_path: Path) -> None:
    before = len(server.log())
    with pytest.raises(
        shoal.EngineError, match=r'Nothing was read\. .*GRANT TEMPORARY ON DATABASE "postgres" TO "reader"'
    ):
        shoal.anonymize(role, POLICY, table="people")
    assert "people" not in server.log()[before:]
    server.run("GRANT TEMPORARY ON DATABASE postgres TO reader")
    release = shoal.anonymize(role, POLICY, table="people")
    with pytest.raises(shoal.EngineError, match=r'GRANT CREATE ON SCHEMA "public" TO "reader"'):
        release.save(tmp_path / "release", table="people_release")
    with pytest.raises(shoal.EngineError, match=r"there is no schema 'nowhere'"):
        release.save(tmp_path / "release", table="nowhere.people_release")
    assert not list(tmp_path.iterdir())
    server.run("GRANT CREATE ON SCHEMA public TO reader")
    release.save(tmp_path / "release", table="people_release")
    assert server.rows("SELECT relowner::regrole::text FROM pg_class WHERE relname = 'people_release'") == [("reader",)]
    with pytest.raises(shoal.EngineError, match="is not a table that Shoal released"):
        release.save(tmp_path / "other", table="people", overwrite=True)


def test_a_read_only_database(role: str, server: Server) -> None:
    server.run(
        "GRANT TEMPORARY ON DATABASE postgres TO reader", "ALTER ROLE reader SET default_transaction_read_only = on"
    )
    with pytest.raises(shoal.EngineError, match=r"is read-only for the role 'reader'.* Nothing was read"):
        shoal.anonymize(role, POLICY, table="people")


def test_rights_on_columns_and_rows(role: str, server: Server) -> None:
    """A role sees the columns that it may read; policies on rows raise an error instead of hiding records."""
    server.run("GRANT TEMPORARY ON DATABASE postgres TO reader", "ALTER TABLE people ADD name text")
    server.run("REVOKE SELECT ON people FROM reader", "GRANT SELECT (age, ill) ON people TO reader")
    assert shoal.anonymize(role, POLICY, table="people").dropped == ()
    server.run("ALTER TABLE people ENABLE ROW LEVEL SECURITY")
    with pytest.raises(shoal.EngineError, match="row-level security"):
        shoal.anonymize(role, POLICY, table="people")
    server.run("CREATE TABLE hidden AS TABLE people")
    with pytest.raises(shoal.EngineError, match=r'GRANT SELECT ON "public"\."hidden" TO "reader"'):
        shoal.anonymize(role, POLICY, table="hidden")
    server.run("CREATE SCHEMA clinic", "CREATE TABLE clinic.people AS TABLE people")
    with pytest.raises(shoal.EngineError, match=r'GRANT USAGE ON SCHEMA "clinic" TO "reader"'):
        shoal.anonymize(role, POLICY, table="clinic.people")


# Lost connections and changed tables


def end_sessions(server: Server) -> None:
    """End the sessions of Shoal."""
    server.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shoal'")


@pytest.mark.parametrize("stage", ["reading", "writing", "checking"])
def test_a_connection_that_is_lost_in_mid_run(stage: str, server: Server) -> None:
    before = tables(server)

    def cut(now: str, done: float, total: float) -> None:
        if now == stage:
            end_sessions(server)

    with pytest.raises(shoal.EngineError, match=r"connection to the database was lost\. Nothing was released"):
        anonymize(server, progress=cut)
    assert tables(server) == before


@pytest.mark.parametrize("place", ["_write_public", "_write_owner"])
def test_a_connection_that_is_lost_while_saving(
    place: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.release import store

    release, real = anonymize(server), getattr(store, place)

    def cut(*arguments: Any) -> Any:
        end_sessions(server)
        return real(*arguments)

    monkeypatch.setattr(store, place, cut)
    with pytest.raises(shoal.EngineError, match="connection to the database was lost"):
        release.save(tmp_path / "release", table="people_release")
    assert tables(server) == ["people"] and not list(tmp_path.iterdir())


def test_folders_that_cannot_appear_leave_no_table(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = anonymize(server)

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shoal.work_folder.WorkFolder.exchange", fail)
    with pytest.raises(shoal.EngineError, match="No space left"):
        release.save(tmp_path / "release", table="people_release")
    assert tables(server) == ["people"] and not list(tmp_path.iterdir())


def test_others_see_the_table_only_when_it_is_complete(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.release import store

    real, seen = store._write_owner, []
    monkeypatch.setattr(store, "_write_owner", lambda *given: (seen.append(tables(server)), real(*given)))
    anonymize(server).save(tmp_path / "release", table="people_release")
    assert seen == [["people"]] and tables(server) == ["people", "people_release"]


def test_a_table_that_changes_during_the_run(server: Server, tmp_path: Path) -> None:
    """The run sees one state of the table."""
    expected = anonymize(server).certificate

    def change(now: str, done: float, total: float) -> None:
        if now in ("reading", "writing"):
            server.run("INSERT INTO people VALUES (99, 'x')", "DELETE FROM people WHERE age = 20")

    release = anonymize(server, progress=change)
    assert release.certificate == expected and server.rows("SELECT count(*) FROM people WHERE age = 99") != [(0,)]


def test_no_session_stays_open(server: Server) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shoal'"
    before = server.rows(query)
    shoal.check(server.url(), POLICY, table="people")
    release = anonymize(server)
    del release
    done = threading.Event()
    for _ in range(100):  # the server ends a session shortly after its client
        if server.rows(query) <= before:
            done.set()
            break
    assert done.is_set()


# Written tables


def physical_rows(server: Server, table: str) -> list[tuple[Any, ...]]:
    return server.rows(f"SELECT * FROM {table} ORDER BY ctid")


def test_the_physical_order_depends_on_the_secret_and_not_on_the_input(server: Server, tmp_path: Path) -> None:
    ages, notes = list(range(60)), [f"n{i:02}" for i in range(60)]
    policy = shoal.Policy(
        quasi={"age": "numeric"}, keep=["note"], accept={"note": "a test"}, require=[shoal.KAnonymity(60)]
    )
    orders = {}
    for name, step, seed in (("one", 1, SEED), ("two", -1, SEED), ("three", 1, SEED + 1)):
        server.upload(pa.table({"age": ages[::step], "note": notes[::step]}), "listed")
        anonymize(server, policy, "listed", seed=seed).save(tmp_path / name, table=f"release_{name}")
        orders[name] = [note for _, note in physical_rows(server, f"release_{name}")]
    assert orders["one"] == orders["two"] and orders["one"] != orders["three"]
    assert sorted(orders["three"]) == notes and notes not in (orders["one"], orders["one"][::-1])


def test_a_release_is_overwritten_in_one_step(server: Server, tmp_path: Path) -> None:
    release = anonymize(server)
    release.save(tmp_path / "release", table="people_release")
    before = physical_rows(server, "people_release")
    with pytest.raises(shoal.EngineError, match=r"already exists in the database\. .*overwrite=True, --force"):
        release.save(tmp_path / "other", table="people_release")
    other = anonymize(server, shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[shoal.KAnonymity(4)]))
    other.save(tmp_path / "release", table="people_release", overwrite=True)
    assert physical_rows(server, "people_release") != before
    statement = json.loads((tmp_path / "release" / "certificate.json").read_text())
    assert statement["table"] == '"public"."people_release"' and "file" not in statement and "sha256" not in statement
    assert sorted(p.name for p in (tmp_path / "release").iterdir()) == [
        "certificate.json",
        "policy.yaml",
        "report.html",
    ]
    assert (tmp_path / "release.owner" / "recoding.json").is_file()


def test_options_that_do_not_go_together(server: Server, tmp_path: Path) -> None:
    release = anonymize(server)
    for given in ({"format": "csv"}, {"like_input": True}):
        with pytest.raises(shoal.PolicyError, match="Remove one of them"):
            release.save(tmp_path / "release", table="people_release", **given)
    with pytest.raises(shoal.PolicyError, match="exist only in a database"):
        release.save(tmp_path / "release", range_types=True)
    with pytest.raises(shoal.PolicyError, match="because the data are not in a database"):
        shoal.anonymize(PEOPLE, POLICY).save(tmp_path / "release", table="people_release")
    assert not list(tmp_path.iterdir())


def test_a_table_that_differs_from_what_was_audited_is_not_released(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trigger on tables that are created changes a row before the table is read back."""
    server.run(
        "CREATE FUNCTION spoil() RETURNS event_trigger LANGUAGE plpgsql AS $$ DECLARE t record; BEGIN "
        "FOR t IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE schema_name = 'public' LOOP "
        "EXECUTE format('UPDATE %s SET ill = ''z''', t.object_identity); END LOOP; END $$",
        "CREATE EVENT TRIGGER spoil ON ddl_command_end WHEN TAG IN ('CREATE TABLE AS') EXECUTE FUNCTION spoil()",
    )
    try:
        with pytest.raises(shoal.RequirementNotMet, match="differ from what was audited"):
            anonymize(server).save(tmp_path / "release", table="people_release")
        assert tables(server) == ["people"] and not list(tmp_path.iterdir())
    finally:
        server.run("DROP EVENT TRIGGER spoil")


def test_ranges_have_range_types(server: Server, tmp_path: Path) -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(97 * i) for i in range(12)]
    frame = pa.table({"age": range(12), "cost": [i / 4 for i in range(12)], "day": days, "zip": ["01234"] * 12})
    server.upload(frame, "ranged")
    quasi = {
        "age": "numeric",
        "cost": {"kind": "numeric", "round": "none"},
        "day": {"kind": "date", "round": "none"},
        "zip": {"mask": "right"},
    }
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(4)])
    release = anonymize(server, policy, "ranged")
    for number, table in enumerate((release, anonymize(server, policy, "ranged", method="kmember"))):
        folder = table.save(tmp_path / str(number), table=f"release_{number}", range_types=True)
        statement = json.loads((folder / "certificate.json").read_text())
        again = shoal.check(server.url(), policy, table=f"release_{number}")
        assert again.holds and again.fingerprint == statement["fingerprint"] and again.groups == statement["groups"]
    types = server.rows(
        "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = 'release_0'::regclass AND attnum > 0"
    )
    assert dict(types) == {"age": "int4range", "cost": "numrange", "day": "daterange", "zip": "text"}
    contained = "SELECT count(*) FROM release_0 r WHERE age @> {0} AND day @> DATE '{1}'"
    assert all(server.rows(contained.format(age, day))[0][0] >= 4 for age, day in enumerate(days))


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["[20, 36]", "40", "*"], "int4range"),
        (["[20, 36]", "[20, 37)"], "numrange"),
        (["[0, 2147483647]"], "int8range"),
        (["[0.5, 3]", "(-inf, 0.5)"], "numrange"),
        (["[2020-01-01, 2020-02-01)", "2020-05-05"], "daterange"),
        (["[2020-01-01, 2020-01-31]", "[2020-01-01, 2020-02-01)"], None),
        (["2020-02-30"], None),
        (["[3, 3)"], None),
        (["*"], None),
        (["01234", "4790*"], None),
        (["{1, 2}"], None),
    ],
    ids=str,
)
def test_the_choice_of_range_types(labels: list[str], kind: str | None, server: Server) -> None:
    bounds = [parse_label(label) for label in labels]
    assert choose_type(bounds) == kind
    if kind:
        found = server.rows(f"SELECT count(DISTINCT r::{kind}) FROM unnest(ARRAY{[b.text for b in bounds]}) r")
        assert found == [(len(labels),)]


def test_encodings(server: Server) -> None:
    for encoding in ("SQL_ASCII", "LATIN1"):
        server.run(f"CREATE DATABASE {encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(shoal.EngineError, match="SQL_ASCII"):
            shoal.anonymize(server.url(database="sql_ascii"), POLICY, table="people")
        server.upload(
            pa.table({"day": ["2024-01-01", "2024-02-05", "2024-03-05", "2024-04-05"]}), "days", database="latin1"
        )
        policy = shoal.Policy(
            quasi={"day": {"date": ["day", "month"], "ranges": "month"}}, require=[shoal.KAnonymity(2)]
        )
        with pytest.raises(shoal.EngineError, match="encoding of the database cannot store a published label"):
            shoal.anonymize(server.url(database="latin1"), policy, table="days")
    finally:
        server.run("DROP DATABASE sql_ascii WITH (FORCE)", "DROP DATABASE latin1 WITH (FORCE)")


# Large tables and Ibis


@contextmanager
def closing(connection: Any) -> Iterator[Any]:
    """An Ibis connection that is closed at the end."""
    try:
        yield connection
    finally:
        connection.disconnect()


def test_a_table_with_too_many_combinations_is_searched_in_partitions(server: Server) -> None:
    frame = pa.table({"age": [i % 97 for i in range(400)], "ill": [*"abcd"] * 100})
    server.upload(frame, "many")
    database = anonymize(server, table="many", combinations=30)
    duck = shoal.anonymize(frame, POLICY, engine="duckdb", combinations=30, seed=SEED)
    assert database.certificate == duck.certificate and database.certificate.parts > 1


def test_records_do_not_come_to_python(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only values, cells and the released rows are fetched, the latter for the fingerprint."""
    from shoal.engines.databases.session import Session

    server.upload(pa.table({"age": [i % 7 for i in range(3000)], "ill": [*"abcde"] * 600}), "many")
    real, fetched = Session.fetch_arrow, []

    def fetch(self: Session, sql: str) -> pa.Table:
        table = real(self, sql)
        fetched.append((sql.split()[0], table.num_rows))
        return table

    monkeypatch.setattr(Session, "fetch_arrow", fetch)
    assert anonymize(server, table="many").certificate.holds
    assert max(rows for word, rows in fetched if word == "SELECT") <= 35
    assert max(rows for word, rows in fetched if word == "FETCH") == 3000


def test_an_ibis_table_stays_an_ibis_table(server: Server) -> None:
    import ibis

    people = connect_ibis().table("people")
    given = people.filter(people.age < 42).mutate(ill=people.ill.upper())
    release = shoal.anonymize(given, POLICY, seed=SEED)
    memory = shoal.anonymize(given.to_pyarrow(), POLICY, seed=SEED)
    assert release.certificate == memory.certificate
    assert isinstance(release.frame, ibis.Table) and release.frame.columns == ("age", "ill")
    assert sorted(release.frame.to_pyarrow().to_pylist(), key=str) == sorted(memory.frame.to_pylist(), key=str)
    assert shoal.check(given, POLICY).records == 6


def test_the_expressions_for_other_databases_run_in_postgresql(server: Server) -> None:
    """A database with a server, whose results Ibis itself reads from a cursor."""
    people = connect_ibis().table("people")
    opened = IbisEngine(IbisSource.open(people.get_backend(), people), Resources())
    release, memory = (shoal.anonymize(data, POLICY, seed=SEED) for data in (opened, PEOPLE))
    assert release.certificate == memory.certificate and shoal.check(opened, POLICY) == shoal.check(PEOPLE, POLICY)
    assert sorted(release.frame.to_pyarrow().to_pylist(), key=str) == sorted(memory.frame.to_pylist(), key=str)
    assert tables(server) == ["people"]


def test_the_search_path_and_the_role_of_an_ibis_connection_are_kept(role: str, server: Server) -> None:
    """Otherwise another table of the same name, or a table that the role may not read, would be released."""
    server.run("CREATE SCHEMA clinic", "CREATE TABLE clinic.people AS SELECT * FROM people WHERE age > 30")
    server.run("GRANT TEMPORARY ON DATABASE postgres TO reader", "CREATE TABLE hidden AS TABLE people")
    with closing(server.ibis()) as connection:
        connection.con.execute("SET search_path = clinic")
        assert shoal.anonymize(connection.table("people"), POLICY).certificate.records == 4
        connection.con.execute("SET search_path = public")
        hidden = connection.table("hidden")
        connection.con.execute("SET ROLE reader")
        with pytest.raises(shoal.EngineError, match="permission denied for table hidden"):
            shoal.anonymize(hidden, POLICY)


def test_an_ibis_table_without_a_database(server: Server) -> None:
    import ibis

    with pytest.raises(shoal.DataError, match="belongs to no database"):
        shoal.anonymize(ibis.table({"age": "int64", "ill": "string"}), POLICY)


def test_a_statement_that_fails_quotes_no_data(server: Server) -> None:
    people = connect_ibis().table("people")
    server.run("INSERT INTO people VALUES (50, 'secret value')")
    broken = people.mutate(ill=people.ill.cast("int64"))
    with pytest.raises(shoal.EngineError, match=r"PostgreSQL failed with the error 22P02") as caught:
        shoal.anonymize(broken, POLICY)
    assert "secret" not in str(caught.value)


def test_opening_costs_no_copy(server: Server) -> None:
    opened = open_data(server.url(), parse_resources(table="people"))
    assert opened.schema().names == ("age", "ill") and opened.schema().rows == len(PEOPLE)
    assert opened.summarize("ill").values == 4 and opened.count_once("age") == 8


def test_the_key_of_the_order_is_not_the_secret() -> None:
    keyed = KeyedHash.of(SEED)
    assert keyed.derive_key(PURPOSE) != keyed.derive_key(b"other") and len(keyed.derive_key(PURPOSE)) == 32
    assert hashlib.sha256(keyed.derive_key(PURPOSE)).digest() != keyed.derive_key(PURPOSE)
