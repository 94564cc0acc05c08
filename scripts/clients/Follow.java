import java.net.InetSocketAddress;
import org.bitcoinj.base.BitcoinNetwork;
import org.bitcoinj.core.BlockChain;
import org.bitcoinj.core.NetworkParameters;
import org.bitcoinj.core.PeerAddress;
import org.bitcoinj.core.PeerGroup;
import org.bitcoinj.store.MemoryBlockStore;

/** Follows a node on regtest by bitcoinj, and prints the hash of each best block. */
public class Follow {
    public static void main(String[] args) throws Exception {
        NetworkParameters params = NetworkParameters.of(BitcoinNetwork.REGTEST);
        MemoryBlockStore store = new MemoryBlockStore(params.getGenesisBlock());
        BlockChain chain = new BlockChain(BitcoinNetwork.REGTEST, store);
        PeerGroup peers = new PeerGroup(params, chain);
        peers.setBloomFilteringEnabled(false);
        peers.setUseLocalhostPeerWhenPossible(false);
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]));
        peers.addAddress(PeerAddress.simple(address));
        peers.start();
        peers.downloadBlockChain();
        String last = "";
        while (true) {
            String head = chain.getChainHead().getHeader().getHashAsString();
            if (!head.equals(last)) {
                System.out.println(head);
                last = head;
            }
            Thread.sleep(20);
        }
    }
}
