// The other end of a connection, in a process of its own: it takes all bytes of one, and ends.
import net from 'node:net';

const server = net.createServer((socket) => {
  socket.resume();
  socket.on('close', () => process.exit());
});
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
