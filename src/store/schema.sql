-- schema.sql - the tables of a results file (user_version 6).
--
-- One file may hold several experiments, which share rows. A row is found again by what
-- it is, never by its id: each table has one unique index over its identity. Of models,
-- tasks and rules that is every column, so that no experiment reads another's margin or
-- template. All hashes are SHA-256 in
-- lower-case hex. json_valid(NULL) is 0 in SQLite 3.40, hence the IS NULL in checks.
--
-- SPDX-License-Identifier: MIT

PRAGMA application_id = 0x46425544; -- 'FBUD'
PRAGMA user_version = 6;

CREATE TABLE experiment (
    id            INTEGER PRIMARY KEY,
    spec_sha256   TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    question      TEXT,
    spec          TEXT NOT NULL,
    class         TEXT NOT NULL,           -- closed, open
    class_reasons TEXT,
    program       TEXT NOT NULL,           -- version, build
    baseline      TEXT,                    -- label of a rule
    kernel        TEXT,                    -- native.f32.kv32, torch-2.13.0.cpu.bf16.kv32:
                                           -- parts of the signature
    protocol      TEXT,                    -- prefill.agnostic.original
    protection    TEXT,                    -- 4+16
    compute       TEXT,                    -- cap5
    planned       INTEGER NOT NULL,        -- cells, done or not; 0: unknown
    created       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;

CREATE TABLE host (
    id          INTEGER PRIMARY KEY,
    sha256      TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL CHECK (json_valid(description))
) STRICT;

CREATE TABLE model (
    id               INTEGER PRIMARY KEY,
    sha256           TEXT NOT NULL,
    name             TEXT NOT NULL,
    architecture     TEXT NOT NULL,
    layers           INTEGER NOT NULL,
    heads            INTEGER NOT NULL,
    kv_heads         INTEGER NOT NULL,
    head_dim         INTEGER NOT NULL,
    template_sha256  TEXT,
    tokenizer_sha256 TEXT,
    facts            TEXT CHECK (facts IS NULL OR json_valid(facts))
) STRICT;
CREATE UNIQUE INDEX model_identity ON model
    (sha256, name, architecture, layers, heads, kv_heads, head_dim,
     coalesce(template_sha256, ''), coalesce(tokenizer_sha256, ''), coalesce(facts, ''));

CREATE TABLE task (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL,
    version         INTEGER NOT NULL,
    params          TEXT CHECK (params IS NULL OR json_valid(params)),
    metric          TEXT NOT NULL,
    data_sha256     TEXT,
    unit            TEXT NOT NULL,
    lower_is_better INTEGER NOT NULL CHECK (lower_is_better IN (0, 1)),
    margin          REAL NOT NULL          -- smallest difference that matters
) STRICT;
CREATE UNIQUE INDEX task_identity ON task
    (name, version, metric, coalesce(params, ''), coalesce(data_sha256, ''), unit,
     lower_is_better, margin);

CREATE TABLE sample (
    id              INTEGER PRIMARY KEY,
    task_id         INTEGER NOT NULL REFERENCES task,
    key             TEXT NOT NULL,
    tokens_sha256   TEXT NOT NULL,
    grp             TEXT NOT NULL,         -- samples of one document: resampled together
    context_tokens  INTEGER NOT NULL,
    question_tokens INTEGER NOT NULL,
    cut_tokens      INTEGER NOT NULL,
    has_texts       INTEGER NOT NULL CHECK (has_texts IN (0, 1)), -- 0: store.prompts off
    context         TEXT,
    question        TEXT,
    expected        TEXT,
    depth           REAL,                  -- place of the needle, 0 to 1
    length          INTEGER,               -- tokens aimed at
    needle          TEXT CHECK (needle IS NULL OR json_valid(needle)),
    token_text      TEXT CHECK (token_text IS NULL OR json_valid(token_text)),
    UNIQUE (task_id, key, tokens_sha256, has_texts)
) STRICT;

CREATE TABLE rule (
    id            INTEGER PRIMARY KEY,
    label         TEXT NOT NULL,
    expression    TEXT NOT NULL,           -- canonical: every parameter written out
    abi           INTEGER NOT NULL,
    source_sha256 TEXT,                    -- of a rule that is not built in
    family        TEXT,
    origin        TEXT NOT NULL,           -- built-in, loaded, python
    state_bytes   INTEGER NOT NULL,
    deployable    INTEGER NOT NULL CHECK (deployable IN (0, 1)),
    accounted     INTEGER NOT NULL CHECK (accounted IN (0, 1)),
    is_random     INTEGER NOT NULL CHECK (is_random IN (0, 1)),
    is_reference  INTEGER NOT NULL CHECK (is_reference IN (0, 1)),
    about         TEXT                     -- what it keeps and where that is from
) STRICT;
CREATE UNIQUE INDEX rule_identity ON rule
    (label, expression, abi, coalesce(source_sha256, ''), coalesce(family, ''), origin,
     state_bytes, deployable, accounted, is_random, is_reference, coalesce(about, ''));

CREATE TABLE budget (
    id    INTEGER PRIMARY KEY,
    asked TEXT NOT NULL,                   -- as the user wrote it: 20%, 256t, 64MiB
    kind  TEXT NOT NULL,                   -- ratio, tokens, bytes, full
    value TEXT NOT NULL,                   -- exact decimal
    UNIQUE (asked, kind, value)
) STRICT;

CREATE TABLE cell (
    id             INTEGER PRIMARY KEY,
    experiment_id  INTEGER NOT NULL REFERENCES experiment,
    model_id       INTEGER NOT NULL REFERENCES model,
    sample_id      INTEGER NOT NULL REFERENCES sample,
    rule_id        INTEGER NOT NULL REFERENCES rule,
    budget_id      INTEGER NOT NULL REFERENCES budget,
    seed           INTEGER NOT NULL,       -- 0: nothing random
    host_id        INTEGER NOT NULL REFERENCES host,
    status         TEXT NOT NULL CHECK (status IN ('done', 'failed', 'refused')),
    reason         TEXT,
    full_entries   INTEGER NOT NULL,
    budget_bytes   INTEGER NOT NULL,
    budget_entries INTEGER NOT NULL,
    kept_entries   INTEGER NOT NULL,
    kept_bytes     INTEGER NOT NULL,
    state_bytes    INTEGER NOT NULL,       -- that the rule may keep beside entries
    peak_bytes     INTEGER NOT NULL,       -- highest use of its caches
    tail_bytes     INTEGER NOT NULL,
    evicted        INTEGER NOT NULL,
    free_choices   INTEGER NOT NULL,       -- entries that the rule itself could choose
    fallback       INTEGER NOT NULL CHECK (fallback IN (0, 1)),
    shrunk         INTEGER NOT NULL CHECK (shrunk IN (0, 1)),
    answer         TEXT,
    answer_tokens  TEXT CHECK (answer_tokens IS NULL OR json_valid(answer_tokens)),
    stop           TEXT,
    cache_sha256   TEXT,
    trace_context  TEXT,                   -- hashes of operator calls outside rules
    trace_answer   TEXT,
    trace_decode   TEXT,
    kept_sha256    TEXT,
    digest         TEXT CHECK (digest IS NOT NULL OR status != 'done'),
    fused_flops    REAL,                   -- of the rule, with a kernel that keeps no attention
    step_flops     REAL,                   -- of the first token of an answer
    step_bytes     REAL,
    plain_flops    REAL,                   -- of reading the context with a full cache
    UNIQUE (experiment_id, model_id, sample_id, rule_id, budget_id, seed)
) STRICT;

CREATE TABLE score (
    cell_id INTEGER NOT NULL REFERENCES cell ON DELETE CASCADE,
    metric  TEXT NOT NULL,
    value   REAL NOT NULL,
    PRIMARY KEY (cell_id, metric)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (                      -- operator counts, as if the cell ran alone
    cell_id INTEGER NOT NULL REFERENCES cell ON DELETE CASCADE,
    phase   TEXT NOT NULL,
    scope   TEXT NOT NULL,
    op      TEXT NOT NULL,
    calls   INTEGER NOT NULL,
    flops   REAL NOT NULL,
    bytes   REAL NOT NULL,
    PRIMARY KEY (cell_id, phase, scope, op)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory (                      -- kv, rule_state: the cell's own; else all
    cell_id    INTEGER NOT NULL REFERENCES cell ON DELETE CASCADE,
    phase      TEXT NOT NULL,
    account    TEXT NOT NULL,
    peak_bytes INTEGER NOT NULL,
    PRIMARY KEY (cell_id, phase, account)
) STRICT, WITHOUT ROWID;

CREATE TABLE timing (                      -- never part of a digest
    cell_id    INTEGER NOT NULL REFERENCES cell ON DELETE CASCADE,
    host_id    INTEGER NOT NULL REFERENCES host,
    phase      TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    ns         INTEGER NOT NULL,
    shared     INTEGER NOT NULL CHECK (shared IN (0, 1)), -- by several cells
    PRIMARY KEY (cell_id, host_id, phase, repetition)
) STRICT, WITHOUT ROWID;

CREATE TABLE kept (
    cell_id   INTEGER NOT NULL REFERENCES cell ON DELETE CASCADE,
    layer     INTEGER NOT NULL,
    kv_head   INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    positions BLOB NOT NULL, -- LEB128: the first position, then differences
    PRIMARY KEY (cell_id, layer, kv_head)
) STRICT, WITHOUT ROWID;

CREATE TABLE certificate (
    id            INTEGER PRIMARY KEY,
    experiment_id INTEGER NOT NULL REFERENCES experiment,
    sha256        TEXT NOT NULL,
    body          TEXT NOT NULL CHECK (json_valid(body)),
    UNIQUE (experiment_id, sha256)
) STRICT;

CREATE TABLE verification (
    id             INTEGER PRIMARY KEY,
    certificate_id INTEGER NOT NULL REFERENCES certificate,
    host_id        INTEGER NOT NULL REFERENCES host,
    cells          INTEGER NOT NULL,
    equal          INTEGER NOT NULL,
    details        TEXT CHECK (details IS NULL OR json_valid(details)),
    created        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;

CREATE TABLE note (
    id            INTEGER PRIMARY KEY,
    experiment_id INTEGER NOT NULL REFERENCES experiment,
    cell_id       INTEGER REFERENCES cell ON DELETE CASCADE,
    level         TEXT NOT NULL,           -- warning, failure, note
    text          TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX note_identity ON note
    (experiment_id, coalesce(cell_id, 0), level, text);

-- For people who write SQL: one row per cell and metric, all names spelled out. A column
-- keeps its name, meaning and place across schema numbers; new ones come at the end.
CREATE VIEW tidy AS
SELECT experiment.name AS experiment, model.name AS model, task.name AS task,
       task.version AS task_version, sample.key AS sample, sample.grp AS document,
       sample.depth, sample.length, sample.context_tokens,
       rule.label AS rule, rule.expression, rule.family, budget.asked AS budget,
       cell.seed, cell.status, cell.full_entries, cell.budget_bytes,
       cell.budget_entries, cell.kept_entries, cell.kept_bytes, cell.evicted,
       cell.free_choices, cell.fallback, cell.shrunk, cell.answer, sample.expected,
       score.metric, score.value, task.unit, score.metric = task.metric AS is_primary,
       cell.digest, experiment.spec_sha256, task.params AS task_params,
       task.data_sha256 AS task_data, cell.fused_flops, cell.step_flops,
       cell.step_bytes, cell.plain_flops
FROM cell
JOIN experiment ON experiment.id = cell.experiment_id
JOIN model ON model.id = cell.model_id
JOIN sample ON sample.id = cell.sample_id
JOIN task ON task.id = sample.task_id
JOIN rule ON rule.id = cell.rule_id
JOIN budget ON budget.id = cell.budget_id
LEFT JOIN score ON score.cell_id = cell.id;

-- Means of the primary metric; intervals are the program's work, not SQL's.
CREATE VIEW point AS
SELECT experiment, spec_sha256, task, task_version, task_params, task_data, rule,
       expression, budget, metric, unit, count(DISTINCT sample) AS n, count(DISTINCT document) AS documents,
       avg(value) AS mean, avg(budget_bytes) AS budget_bytes,
       avg(1.0 * kept_entries / nullif(budget_entries, 0)) AS filled
FROM tidy
WHERE is_primary AND status = 'done'
GROUP BY spec_sha256, task, task_version, task_params, task_data, rule, expression,
         budget, metric, unit;
