/* transfers.pml: the protocol of transfers between GPUs (docs/transfers.md), for spin.
 *
 * Every rank runs the pairwise schedule on a main stream and two side streams, STEPS * RUNS_A_STEP
 * times, each run issued eagerly or as the replay of a graph. On side stream s a rank sends its own
 * block to one peer and receives the block of another (two ranks: the halves of the other's block).
 * run_model.py says which configurations are checked, and which mistakes have to be found.
 *
 *   RANKS 2|3          STEPS, RUNS_A_STEP    a step is what one commit ends
 *   PUT                the sender copies; otherwise the receiver does
 *   MODES 0..4         runs: all eager, all replayed, alternating, alternating and out of step
 *                      between ranks, any
 *   FAILURES 0..2      nobody fails; somebody aborts at any moment; or a rank dies at any moment
 *   ONE_SIDE           only one of the side streams
 *   FLAG               words in the GPUs' memory, released by a flag; all runs by kernels (MODES 1)
 *   FINE               every access is a step of its own; otherwise see below
 *   COARSE_ABORT       after an abort the streams of a rank come to their end in one step, which is
 *                      what the release loop leads to; that it does is checked without this
 *   BUG_...            one mistake
 *
 * What is one step (unless FINE) and several in the machine, and why nothing is lost by it:
 *   - clearing a word and beginning what follows: a signal that came in between could as well have
 *     come before, where it is caught.
 *   - the end of a copy, the signal after it and the beginning of the next command; the end of a
 *     GEMM and the end of the await after it: whoever touches the block in between could as well
 *     have done so during the copy or GEMM, where it is caught.
 *
 * What is simplified always:
 *   - issuing: a command that is issued late is a stream that is slow, so all runs of a step are
 *     issued at once. An abort stops issuing between two runs, not within one.
 *   - releasing: a host stores into all its words in one step, when one of them is 0. The others let
 *     their streams pass anyway, and a stream that sees its word later is a stream that is slow.
 *   - after an abort data is not followed any more; words, copies and freed memory are.
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

/* Words that rank p owns: for what it sends and for what it receives on side stream s. */
#define SEND(p, s) ((p) * 4 + (s))
#define RECEIVE(p, s) ((p) * 4 + 2 + (s))
byte word[RANKS * 4];
#define OWNER(w) ((w) / 4)
#ifdef FLAG
bool flag[RANKS];
#endif

/* Side stream s takes the block of the rank `distance` further on. */
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

/* Ghosts: of which run a block is, and whose; 0 while it is being written. The owner of a received
 * block is the rank it was copied from. */
#define BLOCK(owner, r) ((r) * RANKS + (owner))
byte staged[RANKS];        /* the own block, which peers may read */
byte block[RANKS * SIDES]; /* received */
#define AT(p, s) ((p) * SIDES + (s))

/* Events, as the number of the run that recorded them last. */
byte atRun[RANKS];            /* main came to this run: a graph may start */
byte begun[RANKS];            /* main staged its block: side streams may start */
byte ended[RANKS * SIDES];    /* a side stream is through */
byte finished[RANKS];         /* main is through: what synchronize() waits for */

/* The host. */
byte issued[RANKS]; /* runs */
#define MODE(p, r) ((p) * (RUNS + 1) + (r))
bool replayed[RANKS * (RUNS + 1)];
byte arrived[RANKS]; /* at the commit of this step */
bool dead[RANKS], drained[RANKS], freed[RANKS];

/* The outcome word, and what ranks told their callers. */
byte committed;
bool aborted;
bool saidOk[STEPS + 1], saidFailed[STEPS + 1];

/* An abort: what is not issued by then never is. Either all runs of the step are, or no run after
 * the one that main is in. Ghosts matter only as long as nobody has aborted. */
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

/* Copies block `from` to `to`. `peer` owns the side that is not our own. */
#define BEGIN_COPY(to, from, peer) \
  assert(dead[p] || !freed[peer]); \
  if :: !aborted -> held = from; to = 0 :: else -> held = 0 fi
#define END_COPY(to, from, peer) \
  assert(!freed[peer]); \
  if \
  :: !aborted -> assert(held != 0 && from == held); /* nobody wrote what was being read */ \
                 to = held \
  :: else -> skip \
  fi; \
  held = 0
#define CHECK(p, s) assert(aborted || block[AT(p, s)] == BLOCK(FROM(p, s), r))

/* Runs issued in the other way belong to the other process of this stream. */
#define NEXT_RUN \
  do \
  :: r++; \
     if :: r > RUNS || replayed[MODE(p, r)] == isReplay -> break :: else -> skip fi \
  od

#ifdef BUG_NO_ENTRY_SYNCHRONISATION
/* A graph still does not start before main has come to it. */
#define CAN_START(p) (issued[p] >= r && (!isReplay || atRun[p] >= r))
#else
#define CAN_START(p) (begun[p] >= r)
#endif

/* Joins two steps, unless all steps are to be apart. */
#ifdef FINE
#define THEN(p) }; d_step { MOVES(p) ->
#else
#define THEN(p) ;
#endif

/* One run of a side stream, in one step for each `d_step` or `atomic`. */
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
/* A graph still ends with its last node. */
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
     /* run(), as often as a step has runs */
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
       /* The last copy of all. */
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
  /* Peers may still copy from and to our memory, until their streams are empty, too. */
  drained[p] = 1;
#ifndef BUG_FREE_EARLY
  ALL_GONE && !dead[p];
#endif
  freed[p] = 1
}

/* When nothing moves any more, every live rank has come to its end. */
#define IS_AT_END(p) (dead[p] || freed[p])
proctype judge() {
  timeout;
#if RANKS == 2
  assert(IS_AT_END(0) && IS_AT_END(1))
#else
  assert(IS_AT_END(0) && IS_AT_END(1) && IS_AT_END(2))
#endif
}

/* -- What goes wrong, and the beginning. -- */

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
  dead[0] = 1; /* whichever: ranks differ by a rotation only, unless runs are out of step */
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
