/* words.pml: the words of transfers, as docs/transfers.md defines them. Shared by the model
 * (transfers.pml) and by the models that accept_trace.py makes from traces.
 *
 * A word is owned by the rank that awaits it, and holds one of three values. With FLAG it lies in the
 * owner's GPU, is awaited by kernels only, and never RELEASED: they see a flag in the host's memory.
 */
#define CLEAR 0    /* nothing to take */
#define SET 1      /* a signal that nobody has taken */
#define RELEASED 2 /* the owner's host ended all waits; stands for 0x40000000 */

/* A signal is one store. An await is two accesses: it goes on when it has seen anything but CLEAR,
 * and then clears the word. A memory operation clears whatever it saw; a kernel leaves RELEASED. */
#define STORE(w) word[w] = SET
#ifdef FLAG
#define SEEN(w) (word[w] != CLEAR || flag[OWNER(w)])
#else
#define SEEN(w) (word[w] != CLEAR)
#endif
#define TAKE_EAGER(w) word[w] = CLEAR
#define TAKE_REPLAYED(w, seen) \
  if :: seen == SET -> word[w] = CLEAR :: else -> skip fi
