// SPDX-License-Identifier: MIT
pragma solidity ^0.8.19;

interface IERC20 {
    function balanceOf(address account) external view returns (uint256);
    function transfer(address to, uint256 amount) external returns (bool);
    function approve(address spender, uint256 amount) external returns (bool);
}

interface IPair {
    function getReserves() external view returns (uint112 r0, uint112 r1, uint32 last);
}

interface IRouter {
    function swapExactTokensForETH(
        uint256 amountIn, uint256 amountOutMin, address[] calldata path, address to, uint256 deadline
    ) external returns (uint256[] memory amounts);
}

/// @title HarborVault
/// @notice Takes ETH for shares, sells a farmed reward token back into ETH,
///         and lends a stablecoin against the shares of a depositor.
contract HarborVault {
    address public owner;
    address public keeper;
    IERC20 public immutable reward;
    IERC20 public immutable stable;
    IPair public immutable pair; // token0 = WETH (18 decimals), token1 = stable (18 decimals)
    IRouter public immutable router;

    uint256 public totalShares;
    mapping(address => uint256) public shares;
    mapping(address => uint256) public debt;
    address[] public depositors;

    event Deposited(address indexed who, uint256 assets, uint256 minted);
    event Withdrawn(address indexed who, uint256 assets, uint256 burned);

    modifier onlyOwner() {
        require(msg.sender == owner, "not owner");
        _;
    }

    constructor(IERC20 reward_, IERC20 stable_, IPair pair_, IRouter router_) {
        owner = msg.sender;
        keeper = msg.sender;
        reward = reward_;
        stable = stable_;
        pair = pair_;
        router = router_;
    }

    receive() external payable {}

    function deposit() external payable returns (uint256 minted) {
        uint256 assetsBefore = address(this).balance - msg.value;
        minted = totalShares == 0 ? msg.value : msg.value * totalShares / assetsBefore;
        if (shares[msg.sender] == 0) depositors.push(msg.sender);
        shares[msg.sender] += minted;
        totalShares += minted;
        emit Deposited(msg.sender, msg.value, minted);
    }

    function withdraw(uint256 amount) external {
        require(shares[msg.sender] >= amount, "shares");
        require(debt[msg.sender] == 0, "repay first");
        uint256 assets = amount * address(this).balance / totalShares;
        (bool ok, ) = msg.sender.call{value: assets}("");
        require(ok, "send failed");
        unchecked {
            shares[msg.sender] -= amount;
            totalShares -= amount;
        }
        emit Withdrawn(msg.sender, assets, amount);
    }

    /// @notice Price of one ETH in the stablecoin, 18 decimals.
    function ethPrice() public view returns (uint256) {
        (uint112 r0, uint112 r1, ) = pair.getReserves();
        return uint256(r1) * 1e18 / uint256(r0);
    }

    function borrow(uint256 amount) external {
        uint256 collateral = shares[msg.sender] * address(this).balance / totalShares;
        uint256 limit = collateral * ethPrice() / 1e18 * 70 / 100;
        require(debt[msg.sender] + amount <= limit, "over limit");
        debt[msg.sender] += amount;
        stable.transfer(msg.sender, amount);
    }

    function setKeeper(address newKeeper) external {
        keeper = newKeeper;
    }

    function harvest(address[] calldata path) external {
        require(msg.sender == keeper, "not keeper");
        uint256 amount = reward.balanceOf(address(this));
        reward.approve(address(router), amount);
        router.swapExactTokensForETH(amount, 0, path, address(this), block.timestamp);
    }

    /// @notice Pays a bonus to every depositor in proportion to the shares held.
    function payBonus() external payable onlyOwner {
        for (uint256 i = 0; i < depositors.length; i++) {
            address to = depositors[i];
            payable(to).send(msg.value * shares[to] / totalShares);
        }
    }

    function emergencyWithdraw(address payable to) external {
        require(tx.origin == owner, "not owner");
        to.transfer(address(this).balance);
    }
}
