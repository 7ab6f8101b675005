// GNU parallel: runs tasks on one machine, and stores nothing.
export const parallel = { name: 'GNU parallel', needs: ['parallel'], argv: ['parallel', '--will-cite'] };
