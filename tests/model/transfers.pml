/* transfers.pml: the protocol of transfers between GPUs (docs/transfers.md), for spin.
 *
 * Every rank runs the pairwise schedule on a main stream and two side streams, STEPS * RUNS_A_STEP
 * times, each run issued eagerly or as the replay of a graph. On side stream s, a rank sends its
 * block to one peer and receives the block of another (with two ranks, half a block per stream).
 * run_model.py lists the configurations that are checked and the mistakes that have to be found.
 *
 *   RANKS 2|3          STEPS, RUNS_A_STEP    a step ends with a commit
 *   PUT                the sender copies; otherwise the receiver does
 *   MODES 0..4         runs: all eager, all replayed, alternating, alternating and out of step
 *                      between ranks, or arbitrary
 *   FAILURES 0..2      no failure; a rank aborts at any moment; or a rank dies at any moment
 *   ONE_SIDE           only one of the side streams
 *   FLAG               words in the GPUs' memory, released by a flag; all runs by kernels (MODES 1)
 *   FINE               every access is a separate step; otherwise see below
 *   COARSE_ABORT       after an abort, the streams of a rank end in one step, as the release loop
 *                      makes them end; configurations without COARSE_ABORT check that it does
 *   BUG_...            one mistake
 *
 * The following are one step here (unless FINE) but several in the machine. No error is missed:
 *   - clearing a word and beginning the next command: a signal in between could as well have come
 *     before, where it is detected.
 *   - the end of a copy, the signal after it and the beginning of the next command; the end of a
 *     GEMM and the end of the await after it: an access to the block in between could as well have
 *     happened during the copy or GEMM, where it is detected.
 *
 * Further simplifications:
 *   - issuing: issuing a command late is equivalent to a slow stream, so all runs of a step are
 *     issued at once. An abort stops issuing between two runs, not within one.
 *   - releasing: if one of a host's words is 0, the host stores into all of them in one step. The
 *     other words let their streams pass anyway, and a stream that sees its word later is slow.
 *   - after an abort, data are no longer tracked, but words, copies and freed memory are.
 */
#include "words.pml"

#ifndef MODES
#define MODES 2
#endif
#ifndef FAILURES
#define FAILURES 0
#endif
#define RUNS (STEPS * RUNS_A_STEP)
#define SIDES 2

/* Words that rank p owns: for its send and its receive on side stream s. */
#define SEND(p, s) ((p) * 4 + (s))
#define RECEIVE(p, s) ((p) * 4 + 2 + (s))
byte word[RANKS * 4];
#define OWNER(w) ((w) / 4)
#ifdef FLAG
bool flag[RANKS];
#endif

/* Side stream s receives the block of rank p + DISTANCE(s). */
#if RANKS == 2
#define DISTANCE(s) 1
#else
#define DISTANCE(s) (2 - (s))
#endif
#define FROM(p, s) (((p) + DISTANCE(s)) % RANKS)
#define TO(p, s) (((p) + RANKS - DISTANCE(s)) % RANKS)

#ifdef COARSE_ABORT
#define IS_COARSE 1
#else
#define IS_COARSE 0
#endif

/* Ghost state: the run and the owner of a block; 0 while it is being written. The owner of a
 * received block is the rank from which it was copied. */
#define BLOCK(owner, r) ((r) * RANKS + (owner))
byte staged[RANKS];        /* a rank's block, which peers may read */
byte block[RANKS * SIDES]; /* received */
#define AT(p, s) ((p) * SIDES + (s))

/* Events, represented by the run that recorded them last. */
byte atRun[RANKS];            /* main has reached this run: a graph may start */
byte begun[RANKS];            /* main has staged its block: side streams may start */
byte ended[RANKS * SIDES];    /* a side stream has finished */
byte finished[RANKS];         /* main has finished, for which synchronize() waits */

/* The host. */
byte issued[RANKS]; /* runs */
#define MODE(p, r) ((p) * (RUNS + 1) + (r))
bool replayed[RANKS * (RUNS + 1)];
byte arrived[RANKS]; /* at the commit of this step */
bool dead[RANKS], drained[RANKS], freed[RANKS];

/* The outcome word, and the results that ranks returned to their callers. */
byte committed;
bool aborted;
bool saidOk[STEPS + 1], saidFailed[STEPS + 1];

/* An abort stops issuing. Either all runs of the step have been issued, or none after the one that
 * main executes. Ghost state is only checked until the abort. */
#define CUT(p) if :: skip :: issued[p] > atRun[p] && !dead[p] -> issued[p] = atRun[p] fi
#if IS_COARSE
#define CUTS skip
#elif RANKS == 2
#define CUTS CUT(0); CUT(1)
#else
#define CUTS CUT(0); CUT(1); CUT(2)
#endif
#define MARK \
  atomic { \
    aborted = 1; \
    CUTS; \
    i = 0; \
    do :: i < RANKS -> staged[i] = 0; i++ :: else -> break od; \
    i = 0; \
    do :: i < RANKS * SIDES -> block[i] = 0; i++ :: else -> break od; \
    i = 0; \
    do :: IS_COARSE && i < RANKS * 4 -> word[i] = 0; i++ :: else -> break od; \
    i = 0 \
  }

#ifdef FLAG
#define RELEASE(p) flag[p] = 1
#define IS_RELEASED(p) flag[p]
#else
#define RELEASE(p) \
  d_step { \
    word[SEND(p, 0)] = RELEASED; word[SEND(p, 1)] = RELEASED; \
    word[RECEIVE(p, 0)] = RELEASED; word[RECEIVE(p, 1)] = RELEASED \
  }
#define IS_RELEASED(p) \
  (SEEN(SEND(p, 0)) && SEEN(SEND(p, 1)) && SEEN(RECEIVE(p, 0)) && SEEN(RECEIVE(p, 1)))
#endif

/* -- Streams. -- */

#define MOVES(p) (!dead[p] && !(IS_COARSE && aborted))

#define SIGNAL(w) \
  assert(aborted || word[w] == CLEAR); /* otherwise this signal, or the one before, is lost */ \
  STORE(w)

#ifdef BUG_NO_RESET
#define TAKE(w) skip
#else
#define TAKE(w) \
  if :: isReplay -> TAKE_REPLAYED(w, seen) :: else -> TAKE_EAGER(w) fi
#endif

#define AWAIT(p, w) atomic { SEEN(w) && MOVES(p) -> seen = (isReplay -> word[w] : 0) }

/* Copies block `from` to `to`. `peer` owns the remote block. */
#define BEGIN_COPY(to, from, peer) \
  assert(dead[p] || !freed[peer]); \
  if :: !aborted -> held = from; to = 0 :: else -> held = 0 fi
#define END_COPY(to, from, peer) \
  assert(!freed[peer]); \
  if \
  :: !aborted -> assert(held != 0 && from == held); /* the source did not change meanwhile */ \
                 to = held \
  :: else -> skip \
  fi; \
  held = 0
#define CHECK(p, s) assert(aborted || block[AT(p, s)] == BLOCK(FROM(p, s), r))

/* Runs in the other launch mode belong to the other process of this stream. */
#define NEXT_RUN \
  do \
  :: r++; \
     if :: r > RUNS || replayed[MODE(p, r)] == isReplay -> break :: else -> skip fi \
  od

#ifdef BUG_NO_ENTRY_SYNCHRONISATION
/* A graph still does not start before main has reached it. */
#define CAN_START(p) (issued[p] >= r && (!isReplay || atRun[p] >= r))
#else
#define CAN_START(p) (begun[p] >= r)
#endif

/* Joins two steps, unless every access is a separate step. */
#ifdef FINE
#define THEN(p) }; d_step { MOVES(p) ->
#else
#define THEN(p) ;
#endif

/* One run of a side stream. Each `d_step` or `atomic` is one step. */
inline get(p, s) {
  d_step { CAN_START(p) && MOVES(p) -> SIGNAL(RECEIVE(TO(p, s), s)) };
#ifndef BUG_NO_AWAIT_BEFORE_COPY
  AWAIT(p, RECEIVE(p, s));
  d_step {
    MOVES(p) ->
#ifndef BUG_LATE_RESET
    TAKE(RECEIVE(p, s));
#endif
    skip
  THEN(p)
#else
  d_step {
    MOVES(p) ->
#endif
    BEGIN_COPY(block[AT(p, s)], staged[FROM(p, s)], FROM(p, s))
  };
#ifdef BUG_SIGNAL_BEFORE_COPY
  d_step { MOVES(p) -> SIGNAL(SEND(FROM(p, s), s)) };
#endif
  d_step {
    MOVES(p) -> END_COPY(block[AT(p, s)], staged[FROM(p, s)], FROM(p, s))
#if !defined(BUG_SIGNAL_BEFORE_COPY) && !defined(BUG_NO_SECOND_SIGNAL)
  THEN(p)
    SIGNAL(SEND(FROM(p, s), s))
#endif
  THEN(p)
    CHECK(p, s)
#ifdef BUG_LATE_RESET
  };
  d_step {
    TAKE(RECEIVE(p, s))
#endif
  };
#ifdef FINE
  d_step { MOVES(p) -> CHECK(p, s) };
#endif
#ifndef BUG_NO_AWAIT_AT_WAIT
  AWAIT(p, SEND(p, s));
#endif
  d_step {
    MOVES(p) -> CHECK(p, s);
#ifndef BUG_NO_AWAIT_AT_WAIT
    TAKE(SEND(p, s))
  THEN(p)
#endif
    ended[AT(p, s)] = r; seen = 0; NEXT_RUN
  }
}

inline put(p, s) {
  d_step { CAN_START(p) && MOVES(p) -> SIGNAL(SEND(FROM(p, s), s)) };
#ifndef BUG_NO_AWAIT_BEFORE_COPY
  AWAIT(p, SEND(p, s));
  d_step {
    MOVES(p) ->
#ifndef BUG_LATE_RESET
    TAKE(SEND(p, s));
#endif
    skip
  THEN(p)
#else
  d_step {
    MOVES(p) ->
#endif
    BEGIN_COPY(block[AT(TO(p, s), s)], staged[p], TO(p, s))
  };
#ifdef BUG_SIGNAL_BEFORE_COPY
  d_step { MOVES(p) -> SIGNAL(RECEIVE(TO(p, s), s)) };
#endif
  d_step {
    MOVES(p) -> END_COPY(block[AT(TO(p, s), s)], staged[p], TO(p, s))
#if !defined(BUG_SIGNAL_BEFORE_COPY) && !defined(BUG_NO_SECOND_SIGNAL)
  THEN(p)
    SIGNAL(RECEIVE(TO(p, s), s))
#endif
#ifdef BUG_LATE_RESET
  };
  d_step {
    TAKE(SEND(p, s))
#endif
  };
#ifndef BUG_NO_AWAIT_AT_WAIT
  AWAIT(p, RECEIVE(p, s));
  d_step {
    MOVES(p) -> TAKE(RECEIVE(p, s)); seen = 0
  THEN(p)
#else
  d_step {
    MOVES(p) ->
#endif
    CHECK(p, s)
  };
  d_step { MOVES(p) -> CHECK(p, s) THEN(p) ended[AT(p, s)] = r; NEXT_RUN }
}

#ifdef PUT
#define TRANSFER(p, s) put(p, s)
#else
#define TRANSFER(p, s) get(p, s)
#endif

#define ALL_ENDED(p) (ended[AT(p, 0)] >= r && ended[AT(p, 1)] >= r)
#ifdef BUG_NO_EXIT_SYNCHRONISATION
/* A graph still ends only after its last node. */
#define CAN_FINISH(p) (!replayed[MODE(p, r)] || ALL_ENDED(p))
#else
#define CAN_FINISH(p) ALL_ENDED(p)
#endif

proctype sideStream(byte p; byte s; bool isReplay; byte r) {
  byte seen, held;
  do
  :: TRANSFER(p, s)
  od
}

proctype mainStream(byte p) {
  byte r = 1;
  do
  :: d_step { issued[p] >= r && MOVES(p) -> atRun[p] = r; staged[p] = 0 };
     d_step {
       MOVES(p) -> if :: !aborted -> staged[p] = BLOCK(p, r) :: else -> skip fi;
       begun[p] = r
     };
     d_step { CAN_FINISH(p) && MOVES(p) -> finished[p] = r; r++ }
  od
}

/* -- Hosts. -- */

#if RANKS == 2
#define ALL_ARRIVED(k) (arrived[0] >= k && arrived[1] >= k)
#define IS_GONE(q) (drained[q] || dead[q])
#define ALL_GONE (IS_GONE(0) && IS_GONE(1))
#else
#define ALL_ARRIVED(k) (arrived[0] >= k && arrived[1] >= k && arrived[2] >= k)
#define IS_GONE(q) (drained[q] || dead[q])
#define ALL_GONE (IS_GONE(0) && IS_GONE(1) && IS_GONE(2))
#endif

#ifdef BUG_COMMIT_IGNORES_MARK
#define MAY_COMMIT 1
#else
#define MAY_COMMIT (!aborted)
#endif
#if defined(BUG_VERDICT_BY_MARK) || defined(BUG_NO_COMMIT)
#define IS_OK(k) (!aborted)
#else
#define IS_OK(k) (committed >= k)
#endif

#ifdef BUG_RELEASE_ONCE
#define MAY_RELEASE (!released)
#else
#define MAY_RELEASE 1
#endif

#define IS_DRAINED(p) \
  (finished[p] >= issued[p] && ended[AT(p, 0)] >= issued[p] && ended[AT(p, 1)] >= issued[p])

proctype host(byte p) {
  byte k = 1;
  bool released;
  do
  :: k <= STEPS ->
     /* run(), for all runs of the step */
     if
     :: d_step { !aborted && !dead[p] -> issued[p] = k * RUNS_A_STEP }
     :: aborted && !dead[p] -> goto failed
     fi;
     /* synchronize() */
     if
     :: d_step { IS_DRAINED(p) && !aborted && !dead[p] -> arrived[p] = k }
     :: aborted && !dead[p] -> goto failed
     fi;
#ifndef BUG_NO_COMMIT
     /* commit() */
     if
     :: ALL_ARRIVED(k) && !dead[p] ->
        d_step { if :: MAY_COMMIT && committed < k -> committed = k :: else -> skip fi }
     :: aborted && !dead[p] -> skip
     fi;
#endif
     if
     :: d_step { IS_OK(k) && !dead[p] -> saidOk[k] = 1; assert(!saidFailed[k]); k++ }
     :: !IS_OK(k) && !dead[p] -> goto failed
     fi
  :: else -> break
  od;
  goto drain;
failed:
  atomic { !dead[p] -> saidFailed[k] = 1; assert(!saidOk[k]); k = 0 };
drain:
  do
  :: IS_DRAINED(p) && !dead[p] -> break
#ifdef COARSE_ABORT
  :: atomic {
       aborted && !IS_DRAINED(p) && !dead[p] ->
       /* The last copies may still access peers. */
       assert(!freed[(p + 1) % RANKS] && !freed[(p + RANKS - 1) % RANKS]);
       break
     }
#endif
#if !defined(BUG_NO_RELEASE) && !defined(COARSE_ABORT)
  :: atomic {
       aborted && !dead[p] && !IS_DRAINED(p) && !IS_RELEASED(p) && MAY_RELEASE -> RELEASE(p);
       released = 1
     }
#endif
  od;
  /* Peers may still access our memory until their streams are empty, too. */
  drained[p] = 1;
#ifndef BUG_FREE_EARLY
  ALL_GONE && !dead[p];
#endif
  freed[p] = 1
}

/* If no process can continue, every live rank must have reached its end. */
#define IS_AT_END(p) (dead[p] || freed[p])
proctype judge() {
  timeout;
#if RANKS == 2
  assert(IS_AT_END(0) && IS_AT_END(1))
#else
  assert(IS_AT_END(0) && IS_AT_END(1) && IS_AT_END(2))
#endif
}

/* -- Failures and initialization. -- */

#if FAILURES > 0
proctype failure() {
  byte i;
#if FAILURES == 1
  if
  :: skip
  :: skip ->
#ifdef BUG_RELEASE_BEFORE_MARK
     RELEASE(0);
#endif
     MARK
  fi
#else
#if RANKS == 2
  if :: dead[0] = 1 :: dead[1] = 1 fi;
#else
  dead[0] = 1; /* any rank: they differ only by a rotation, unless runs are out of step */
#endif
#ifndef BUG_DEATH_UNNOTICED
  MARK
#endif
#endif
}
#endif

#if MODES == 0
#define CHOOSE(p, r) replayed[MODE(p, r)] = 0
#elif MODES == 1
#define CHOOSE(p, r) replayed[MODE(p, r)] = 1
#elif MODES == 2
#define CHOOSE(p, r) replayed[MODE(p, r)] = (r) % 2
#elif MODES == 3
#define CHOOSE(p, r) replayed[MODE(p, r)] = ((p) + (r)) % 2
#else
#define CHOOSE(p, r) \
  if :: replayed[MODE(p, r)] = 0 :: replayed[MODE(p, r)] = 1 fi
#endif

#define START(p, s, isReplay) \
  run_ = 1; \
  do \
  :: run_ <= RUNS && replayed[MODE(p, run_)] != isReplay -> run_++ \
  :: else -> break \
  od; \
  if \
  :: run_ <= RUNS -> run sideStream(p, s, isReplay, run_) \
  :: else -> skip \
  fi

init {
  byte p_, run_;
  atomic {
#ifdef ONE_SIDE
    for (p_ : 0 .. RANKS - 1) {
      ended[AT(p_, 1)] = RUNS; word[SEND(p_, 1)] = RELEASED; word[RECEIVE(p_, 1)] = RELEASED
    }
#endif
    for (p_ : 0 .. RANKS - 1) {
      for (run_ : 1 .. RUNS) { CHOOSE(p_, run_) }
    }
    for (p_ : 0 .. RANKS - 1) {
      START(p_, 0, 0); START(p_, 0, 1);
#ifndef ONE_SIDE
      START(p_, 1, 0); START(p_, 1, 1);
#endif
      run mainStream(p_);
      run host(p_)
    }
    run judge();
#if FAILURES > 0
    run failure();
#endif
    p_ = 0; run_ = 0
  }
}
